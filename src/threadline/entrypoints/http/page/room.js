// One room: what was said, live, and everything about it at the side.

import { path, post, read } from "./api.js";
import { ask, reveal } from "./dialogs.js";
import { h, icon, named, polling, show, toast, tool } from "./dom.js";
import { count, number } from "./format.js";
import { Model } from "./model.js";
import { Panel } from "./panel.js";
import { Live } from "./stream.js";
import { Transcript } from "./transcript.js";

export class Room {
  /** `told(state)` hears of the connection; `back`, `gone` and `changed` are the page's. */
  constructor(id, { told, back, gone, rooms }) {
    this.id = id;
    this.root = path("/v1/conversations", id);
    this.told = told;
    this.gone = gone;
    this.rooms = rooms;
    this.title = h("h1", null, "…");
    this.about = h("p.address");
    this.banner = h("div.banner", { role: "status", hidden: true });
    this.start = h("div.start");
    this.how = h("p.how.faint", { hidden: true });
    this.model = new Model((after, limit) =>
      read(path(this.root, "transcript", { after, limit, view: "messages", before: after + limit + 1 })));
    this.transcript = new Transcript({
      model: this.model,
      label: "Transcript",
      start: this.start,
      view: {
        here: id,
        link: (sequence) => `#/rooms/${encodeURIComponent(id)}/${sequence}`,
        file: (sequence, number) => path(this.root, "records", `${sequence}`, "attachments", `${number}`),
      },
    });
    this.panel = new Panel(this);
    this.element = h("div.room", null,
      h("section.stage", { "aria-label": "Transcript" },
        h("header.bar", null,
          tool("back", "All rooms", back, { class: "narrow" }),
          h("div.heading", null, this.title, this.about),
          h("div.tools", null,
            tool("link", "Share a link to this room", () => this.share()),
            tool("panel", "Members and more (m)", () => this.toggle(), { class: "panel-button" }))),
        this.banner,
        this.transcript.element,
        this.how),
      this.panel.element);
    // Who the person of a direct conversation is stands in its records.
    this.model.addEventListener("records", () => this.state && this.panel.draw(), { once: true });
    this.poll = polling(() => this.refresh(), 4);
  }

  /** Begin, at a sequence or at the newest. */
  async open(sequence, folded = false) {
    await this.refresh();
    if (!this.state) return;
    if (sequence !== null) this.goTo(sequence, folded);
    else this.transcript.end();
    this.follow();
  }

  /** Go to a record; `folded` goes on from an edit to the message that shows it. */
  goTo(sequence, folded = false) {
    this.transcript.go(sequence);
    if (!folded) return;
    const record = this.model.at(sequence);
    if (!record) {
      this.model.addEventListener("records", () =>
        this.transcript.chosen === sequence && this.goTo(sequence, true), { once: true });
      return;
    }
    const target = record.revises && this.model.named(record.revises, record.id_space);
    if (target) this.transcript.go(target.sequence);
  }

  follow() {
    this.line?.close();
    this.line = new Live({
      address: (after) => path(this.root, "stream", { after }),
      after: this.model.head,
      probe: () => read("/login"),
      on: {
        record: (record) => this.model.live(record),
        reset: () => this.again(),
        end: (why) => this.gone(why),
        state: (state) => this.told(state),
      },
    });
  }

  /** What was known may be wrong: begin anew. */
  again() {
    this.gone("reset");
  }

  async refresh() {
    try {
      const state = await read(this.root);
      await this.panel.load(state);
      this.state = state;
      this.model.bounds(state.earliest_sequence, state.head);
      this.line?.nudge(state.head);
      if (!document.hidden) this.rooms.mark(this.id, state.head);
      this.draw();
    } catch (problem) {
      if (problem.status === 404) this.gone("not_found");
      else if (problem.code !== "offline" && problem.status !== 401) toast(problem.message, "bad");
    }
  }

  draw() {
    const { state } = this;
    show(this.title, named(state.title || state.ref.conversation_id));
    show(this.about, h("code", null, named(state.text)), h("span", null, state.kind),
      h("span", null, count(this.model.length, "record")));
    document.title = `${state.title || state.ref.conversation_id} · threadline`;
    const warn = state.hydration === "pending"
      ? ["History is being imported", state.held ? `${number(state.held)} live messages wait until it is done.` : "Live messages go on meanwhile."]
      : state.history === "partial" ? ["Partial history", state.reason || "Not all that was said before is here."]
        : null;
    this.banner.hidden = !warn;
    if (warn) show(this.banner, h("strong", null, warn[0]), " ", h("span", null, warn[1]));
    const from = state.earliest_sequence > state.lowest_sequence
      ? [`Older records than ${number(state.earliest_sequence)} were swept by retention.`]
      : state.history === "partial" ? [`What was said before is not here: ${state.reason || "the import did not finish"}.`]
        : state.history === "none" ? ["The record begins here. What was said before was never imported."]
          : [this.model.length > 0 ? "The beginning." : "Nothing was said here yet."];
    show(this.start, h("p", null, from));
    if (this.how.hidden)
      show(this.how, state.ref.provider === "web" ? "To write here, join as a guest by a link, or let a session write: " : "To write here, let a session write: ",
        h("a", { href: "#/sends" }, "Sends"), " → Write first.");
    this.how.hidden = false;
    this.panel.draw();
  }

  toggle() {
    const open = this.element.classList.toggle("paneled");
    if (open) this.panel.element.querySelector("button, a, summary")?.focus();
  }

  async share() {
    // Whoever is quicker than the room's own facts waits for them.
    if (!this.state) await this.refresh();
    if (!this.state) return;
    const made = await ask({
      title: "Share this room",
      about: this.state.ref.provider === "web"
        ? "Whoever has the link can join under a name of their own, and read and write here only."
        : "Whoever has the link can read here under a name of their own. They cannot write: only rooms of the web chat carry a guest’s words to everybody.",
      action: "Make link",
      fields: [
        { name: "name", label: "For", placeholder: "Customers of May", note: "Only you see this." },
        { name: "policy", label: "They read", half: true, choices: [
          ["since_join", "from joining on"], ["all", "everything"]] },
        { name: "days", label: "It holds", half: true, value: "7", choices: [
          ["1", "a day"], ["7", "a week"], ["30", "a month"], ["89", "three months"]] },
      ],
      submit: ({ name, policy, days }) => post(path(this.root, "links"), {
        name, policy, expires_at: new Date(Date.now() + days * 86400000).toISOString(),
      }),
    });
    if (!made) return;
    reveal("The link", "It is shown now and never again. Revoke it in the side panel.",
      made.url ?? new URL(made.url_path, location.href).href);
    this.refresh();
  }

  key(event) {
    if (event.key === "m") this.toggle();
    else if (["j", "k", "g", "G", "End", "Home", "ArrowDown", "ArrowUp"].includes(event.key)) {
      this.transcript.key(event);
      return true;
    } else return false;
    return true;
  }

  close() {
    this.poll.stop();
    this.line?.close();
    this.transcript.close();
    this.told(null);
  }
}

/** What stands where no room is. */
export const missing = (why) => h("div.nothing", null, icon("rooms"),
  h("h2", null, "There is no such room"), h("p.faint", null, why));
