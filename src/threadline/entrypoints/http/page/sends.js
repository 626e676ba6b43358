// What sessions say on their own initiative: what waits, what went out, what became of each way.

import { path, post, read } from "./api.js";
import { ask, dialog, paged, sure, table } from "./dialogs.js";
import { h, icon, named, polling, toast } from "./dom.js";
import { ago, exact, when } from "./format.js";
import { prose } from "./prose.js";

const WORDS = { scheduled: "scheduled", open: "under way", delivered: "delivered", failed: "failed", uncertain: "uncertain",
  expired: "expired", cancelled: "taken back", suppressed: "said before" };
const OPEN = ["scheduled", "open"];
const STATES = { scheduled: "pending", open: "sending", suppressed: "cancelled" };

const state = (one) => h("span.state", { class: STATES[one.state] ?? one.state }, WORDS[one.state] ?? one.state);

/** What people are called, asked for once. */
const people = new Map();

function calledPerson(id) {
  if (!people.has(id)) people.set(id, read(path("/v1/people", id)).then((one) => one.name, () => null));
  return people.get(id);
}

/** What rooms are called, asked for once. */
const rooms = new Map();

function calledRoom(id) {
  if (!rooms.has(id)) rooms.set(id, read(path("/v1/conversations", id)).then((one) => one.title || one.text, () => null));
  return rooms.get(id);
}

const ID = /^[0-9a-z]{13}$/;

/** A room that was named by its id, as people know it. */
function room(id) {
  const label = h("bdi", null, id);
  calledRoom(id).then((name) => name && label.replaceChildren(document.createTextNode(name)));
  return h("a", { href: `#/rooms/${encodeURIComponent(id)}`, title: id }, label);
}

/** A reason, with people by their names where it has their ids. */
export function reason(text, spec = "bdi") {
  return h(spec, null, text.split(/\bperson ([0-9a-z]{13})\b/).map((part, at) => {
    if (at % 2 === 0) return part;
    const label = h("bdi", null, `person ${part}`);
    calledPerson(part).then((name) => name && label.replaceChildren(document.createTextNode(name)));
    return h("a", { href: `#/people/${encodeURIComponent(part)}`, title: part }, label);
  }));
}

/** To whom: a person or a room by name, else as it was written. */
function recipient(one) {
  if (!one.person) return ID.test(one.to) ? room(one.to) : named(one.to);
  const label = h("bdi", null, one.to);
  calledPerson(one.person).then((name) => name && label.replaceChildren(document.createTextNode(name)));
  return h("a", { href: `#/people/${encodeURIComponent(one.person)}`, title: one.to }, label);
}

/** When it goes out, or when it was asked for. */
function timed(one) {
  if (one.repeat)
    return h("span", null, `every day at ${one.repeat.at} `, named(one.repeat.zone, "bdi.faint"));
  if (one.state === "scheduled" && one.at) return h("time", { datetime: one.at, title: exact(one.at) }, `${when(one.at)}, ${ago(one.at)}`);
  return h("time", { datetime: one.created_at, title: exact(one.created_at) }, ago(one.created_at));
}

const outcome = (it) => h("span.state", { class: it.outcome === "suppressed" ? "cancelled" : it.outcome in { pending: 1, sending: 1, uncertain: 1, delivered: 1, cancelled: 1 } ? it.outcome : "failed" },
  it.outcome.replaceAll("_", " "));

/** Each channel that was tried, in order, with what became of it and why. */
function tried(one) {
  if (!one.tried.length) return h("span.why", null, one.reason ? reason(one.reason) : "not tried yet");
  return h("ol.tried", null, one.tried.map((it) => h("li", null,
    h("span", null, named(`${it.provider}/${it.account_id}`), " ", outcome(it)),
    it.reason && reason(it.reason, "small"))));
}

function record(one) {
  const delivery = one.delivery;
  if (!delivery) return null;
  const room = `#/rooms/${encodeURIComponent(delivery.conversation)}`;
  return delivery.sequence === null ? h("a", { href: room }, "The room")
    : h("a", { href: `${room}/${delivery.sequence}` }, `Record #${delivery.sequence}`);
}

export class Sends {
  constructor(id) {
    this.id = id;
    // Whoever was renamed meanwhile is called by the new name.
    people.clear();
    rooms.clear();
    this.filter = h("select", { "aria-label": "State", onchange: () => this.list.load() },
      [["", "All states"], ["waiting", "Waiting"], ["delivered", "Delivered"], ["failed", "Failed"], ["uncertain", "Uncertain"],
        ["suppressed", "Said before"], ["cancelled", "Taken back"], ["expired", "Expired"]]
        .map(([value, label]) => h("option", { value }, label)));
    this.list = paged(async (before) => {
      const page = await read(path("/v1/sends", { limit: 100, before }));
      return { items: page.sends, next: page.next };
    }, (items) => this.draw(items));
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "Sends"), h("span.acts", null, this.filter,
        h("button.primary", { type: "button", onclick: () => this.compose() }, icon("first"), "Write first"))),
      h("p.lead.faint", null, "What sessions said on their own initiative, and what they will say. What was refused stands in the ",
        h("a", { href: "#/audit" }, "audit"), "."), this.list.element);
    // Whoever is about to press a button does not want it to move.
    this.poll = polling(() => this.list.element.contains(document.activeElement) || this.list.again(), 4);
  }

  draw(items) {
    const wanted = this.filter.value;
    const seen = items.filter((one) => !wanted || (wanted === "waiting" ? OPEN.includes(one.state) : one.state === wanted));
    return table(["State", "Session", "To", "When", "What became of it", ""], seen.map((one) => [
      state(one), named(one.session_id, "bdi.whole"), h("span.whole", null, recipient(one)), timed(one), tried(one),
      h("span.acts", null, this.cancels(one),
        h("button.small", { type: "button", onclick: () => this.details(one.id) }, "Details"))]),
    items.length ? "None of those that are loaded." : "Nobody wrote first yet. A session that has an account granted may, where consent is on.");
  }

  cancels(one) {
    // Where the last delivery failed and the send is open, its next channel is still to come.
    const waits = one.state === "scheduled" || (one.state === "open" && ["pending", "failed"].includes(one.delivery?.state));
    return waits && h("button.small.danger", { type: "button", onclick: () => this.cancel(one) }, "Take back");
  }

  async cancel(one) {
    if (await sure("Take this back?", one.repeat ? "It is not said, today and on no other day." : "It is not said.", "Take back",
      () => post(path("/v1/sends", one.id, "cancel"), undefined))) {
      toast("Taken back.");
      await this.list.again();
    }
  }

  async compose() {
    if (await compose({})) await this.list.load();
  }

  async details(id) {
    const place = h("div.content", null, h("p.faint", null, "…"));
    const box = dialog("What was said first", place);
    box.classList.add("wide");
    try {
      const one = await read(path("/v1/sends", id));
      const away = (link) => link && (link.addEventListener("click", () => box.close()), link);
      place.replaceChildren(
        h("dl.facts", null, [
          ["State", state(one)], ["Session", named(one.session_id)], ["To", away(recipient(one))], ["Through", named(one.via)],
          ["When", timed(one)], ["Asked for", h("time", { datetime: one.created_at }, exact(one.created_at))],
          one.reason && ["Why", reason(one.reason)],
          one.first && ["Said before", h("span", null, "by ", named(one.first.session_id), " ",
            h("time", { datetime: one.first.at, title: exact(one.first.at) }, ago(one.first.at)))],
          record(one) && ["Stands in", away(record(one))],
        ].filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
        one.text ? h("blockquote.words", null, prose(one.text)) : "",
        table(["Way", "Address", "Outcome", "When", "Why"], one.tried.map((it) => [named(`${it.provider}/${it.account_id}`), named(it.address),
          outcome(it), h("time", { datetime: it.at, title: exact(it.at) }, ago(it.at)), reason(it.reason || "–")]), "No way was tried yet."));
    } catch (problem) {
      place.replaceChildren(h("p.bad", { role: "alert" }, problem.message));
    }
  }

  async open() {
    await this.list.load();
    if (this.id && !this.closed) await this.details(this.id);
  }

  close() {
    this.closed = true;
    this.poll.stop();
  }
}

/** The form that writes first as a session. Answers the send, null where nothing was sent. */
export async function compose({ to = "", whom = "" }) {
  const [sessions, adapters] = await Promise.all([
    read(path("/v1/sessions", { limit: 200 })).then((page) => page.sessions.filter((one) => !one.retired_at && !one.successor), () => []),
    read(path("/v1/adapters", { limit: 200 })).then((page) => page.adapters, () => []),
  ]);
  const ways = [...new Set(adapters.map((one) => one.provider))];
  const accounts = adapters.map((one) => `${one.provider}/${one.account_id}`);
  // The same words asked for twice are said once, whatever became of the first answer.
  const keys = new Map();
  const sent = await ask({ title: whom ? `Write first to ${whom}` : "Write first", action: "Send", told: reason,
    about: "As a session, on its initiative: within its accounts, the consent and the limits.",
    fields: [
      { name: "session_id", label: "As session", half: true, required: true, placeholder: "atlas", offers: sessions.map((one) => one.session_id) },
      { name: "via", label: "Through", half: true, value: "auto", offers: ["auto", ...ways, ...accounts], note: "auto tries what is granted, in order." },
      { name: "to", label: "To", required: true, value: to, placeholder: "telegram:4711 or web/chat/lobby",
        note: "person:ID, email:ann@example.org, an address on a platform, or a room’s address." },
      { name: "text", label: "Words", required: true, lines: 4 },
      { name: "at", label: "When", type: "datetime-local", note: "Empty is now." },
      { name: "daily", label: "Or every day at", type: "time", note: `On the clocks of ${Intl.DateTimeFormat().resolvedOptions().timeZone}.` },
      { name: "intent", label: "What it is about", longest: 200, placeholder: "build 17 is broken",
        note: "The same is not said twice to the same recipient within a day, by whichever session." }],
    submit: (values) => {
      const body = { session_id: values.session_id, to: values.to, via: values.via || "auto", text: values.text,
        ...(values.at ? { at: new Date(values.at).toISOString() } : {}),
        ...(values.daily ? { repeat: { at: values.daily, zone: Intl.DateTimeFormat().resolvedOptions().timeZone } } : {}),
        ...(values.intent ? { intent: values.intent } : {}) };
      const asked = JSON.stringify(body);
      if (!keys.has(asked)) keys.set(asked, `page-${[...crypto.getRandomValues(new Uint32Array(4))].join("-")}`);
      return post("/v1/send", body, { headers: { "Idempotency-Key": keys.get(asked) } });
    } });
  if (!sent) return null;
  toast(sent.state === "scheduled" ? `It waits until ${when(sent.at)}.` : sent.state === "suppressed" ? sent.reason
    : sent.state === "failed" ? sent.reason || "It was not taken." : "It is on its way.", sent.state === "failed" ? "bad" : "");
  return sent;
}
