// How the server does: what is there, what waits, who lags, what its own work says.

import { read } from "./api.js";
import { table } from "./dialogs.js";
import { h, named, polling } from "./dom.js";
import { ago, count, exact, number, span } from "./format.js";

export class Health {
  constructor() {
    this.body = h("div");
    this.element = h("div.sheet", null, h("header", null, h("h1", null, "Health")), this.body);
    this.poll = polling(() => this.open(), 4);
  }

  async open() {
    try {
      const [status, ready] = await Promise.all([
        read("/v1/status"),
        read("/ready", { quiet: true }).then(() => null, (problem) => problem),
      ]);
      this.body.replaceChildren(...this.draw(status, ready));
    } catch (problem) {
      if (problem.status === 401) return;
      this.body.replaceChildren(h("p.bad", { role: "alert" }, problem.message));
    }
  }

  draw(status, ready) {
    const open = Object.values(status.deliveries?.open ?? {}).reduce((all, one) => all + one, 0);
    const figures = [
      ["conversations", status.conversations],
      ["records", status.records],
      ["sessions", status.sessions],
      ["open streams", status.streams],
      ["waiting deliveries", open],
      ["on hold", status.held, true],
      ["parked", status.parked, true],
      ["members behind", status.members_behind],
      ["rooms nobody reads", status.conversations_nobody_reads, true],
    ].filter(([, value]) => value !== undefined && value !== null);
    const failing = (status.loops ?? []).filter(fails);
    const fault = ready ?? (status.store?.fault ? { message: status.store.fault.detail } : null);
    return [
      h("p.verdict", { class: fault ? "bad" : failing.length ? "warm" : "good", role: "status" },
        h("span.light"), fault ? fault.message : failing.length ? `${count(failing.length, "background task")} failing` : "All is well"),
      h("dl.figures", null, figures.map(([name, value, warn]) =>
        h("div", { class: warn && value ? "warm" : "" }, h("dt", null, name), h("dd", null, number(value))))),
      this.lagging(status.lagging ?? []),
      this.deliveries(status.deliveries ?? {}),
      this.loops(status.loops ?? []),
      h("p.faint", null, [`threadline ${status.version}`, status.store && `${status.store.kind}, schema ${status.store.schema}`,
        status.uptime_seconds !== undefined && `up ${span(status.uptime_seconds)}`,
        status.slow_readers && count(status.slow_readers, "slow reader"),
        status.search?.last_error && `search: ${status.search.last_error}`].filter(Boolean).join(" · "),
      status.as_of && h("time", { datetime: status.as_of, title: exact(status.as_of) }, ` · as of ${ago(status.as_of)}`),
      status.complete === false && " · still counting"),
    ].filter(Boolean);
  }

  lagging(rows) {
    return h("section", null, h("h2", null, "Furthest behind"),
      table(["Session", "Room", "Behind"], rows.slice(0, 20).map((one) => [named(one.session_id),
        h("a", { href: `#/rooms/${encodeURIComponent(one.conversation)}` }, named(one.ref)),
        count(one.behind, "record")]), "Everybody has read everything."));
  }

  deliveries(found) {
    const states = [...new Set([...Object.keys(found.open ?? {}), ...Object.keys(found.last_day ?? {})])].sort();
    if (!states.length) return null;
    return h("section", null, h("h2", null, "Deliveries"),
      table(["State", "Open now", "Settled in the last day"], states.map((one) => [
        h("span.state", { class: one }, one), number(found.open?.[one] ?? 0), number(found.last_day?.[one] ?? 0)]), ""));
  }

  loops(rows) {
    if (!rows.length) return null;
    return h("section", null, h("h2", null, "Its own work"),
      table(["Task", "State", "Last went well", "Failures"], rows.map((one) => [
        one.name.replaceAll("_", " "),
        h("span.state", { class: fails(one) ? "failed" : "delivered" }, fails(one) ? "failing" : "runs"),
        one.last_success ? h("time", { datetime: one.last_success, title: exact(one.last_success) }, ago(one.last_success)) : "not yet",
        one.failures ? h("span", null, number(one.failures), " ", named(one.last_error ?? "", "small")) : "none"]), ""));
  }

  close() {
    this.poll.stop();
  }
}

const fails = (loop) => Boolean(loop.last_failure) && (loop.last_success ?? "") < loop.last_failure;
