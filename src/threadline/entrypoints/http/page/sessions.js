// The agents' seats: who there is, what they read, who takes over.

import { path, post, read } from "./api.js";
import { ask, dialog, paged, reveal, sure, table } from "./dialogs.js";
import { h, icon, named } from "./dom.js";
import { ago, count, exact } from "./format.js";

export class Sessions {
  constructor() {
    this.list = paged(async (after) => {
      const page = await read(path("/v1/sessions", { limit: 100, after }));
      return { items: page.sessions, next: page.next };
    }, (items) => table(["Session", "Other names", "Since", "State", ""], items.map((one) => this.row(one)),
      "No session yet. One is made when it joins a room or gets a token."));
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "Sessions"),
        h("button.primary", { type: "button", onclick: () => this.create() }, icon("plus"), "New session")),
      this.list.element);
  }

  row(one) {
    const open = !one.retired_at && !one.successor;
    const state = one.successor ? "handed over" : one.retired_at ? "retired" : "active";
    return [h("span", null, named(one.session_id, "bdi.name")), one.aliases.join(", "),
      h("time", { datetime: one.created_at, title: exact(one.created_at) }, ago(one.created_at)),
      h("span.state", { class: open ? "delivered" : "cancelled" }, state),
      open && h("span.acts", null,
        h("button.small", { type: "button", onclick: () => this.reads(one) }, "Reads"),
        h("button.small", { type: "button", onclick: () => this.token(one) }, "Token"),
        h("button.small", { type: "button", onclick: () => this.reassign(one) }, "Hand over"),
        h("button.small.danger", { type: "button", onclick: () => this.retire(one) }, "Retire"))];
  }

  async done(work) {
    const answer = await work;
    if (answer) await this.list.load();
    return answer;
  }

  create() {
    return this.done(ask({ title: "New session", action: "Create", about: "A seat for one agent.",
      fields: [{ name: "name", label: "Name", required: true, placeholder: "atlas" }],
      submit: ({ name }) => post("/v1/sessions", { session_id: name }) }));
  }

  async reads(one) {
    const place = h("div.content", null, h("p.faint", null, "…"));
    dialog(`What ${one.session_id} reads`, place).classList.add("wide");
    try {
      const page = await read(path("/v1/sessions", one.session_id, "conversations", { limit: 200 }));
      place.replaceChildren(table(["Room", "Policy", "Read up to", "Behind"], page.conversations.map((it) => [
        h("a", { href: `#/rooms/${encodeURIComponent(it.conversation)}`, onclick: () => place.closest("dialog").close() },
          named(it.ref.conversation_id)),
        it.policy.replace("_", " "), String(it.cursor), it.head > it.cursor ? count(it.head - it.cursor, "record") : "nothing"]),
      "It reads nothing."));
    } catch (problem) {
      place.replaceChildren(h("p.bad", null, problem.message));
    }
  }

  async token(one) {
    const made = await ask({ title: `A token for ${one.session_id}`, action: "Make token",
      fields: [{ name: "name", label: "For", placeholder: "the worker on host 3", note: "So that you know it again." },
        { name: "scopes", label: "May", choices: [["read publish", "read and publish"], ["read", "read"],
          ["read publish send", "read, publish and write first"],
          ["read publish send push", "read, publish, write first and be pushed to"]] }],
      submit: ({ name, scopes }) => post(path("/v1/sessions", one.session_id, "tokens"), { name, scopes: scopes.split(" ") }) });
    if (made) reveal("The token", "It is shown now and never again.", made.token);
  }

  reassign(one) {
    return this.done(ask({ title: `Hand over ${one.session_id}`, action: "Hand over", danger: true,
      about: "Memberships, bindings, handles and cursors go to the other session; the name points there from now on.",
      fields: [{ name: "to", label: "To session", required: true }],
      submit: ({ to }) => post(path("/v1/sessions", one.session_id, "reassign"), { to }) }));
  }

  retire(one) {
    return this.done(sure(`Retire ${one.session_id}?`, "It leaves every room, speaks nowhere, and its tokens end. What it said stays.",
      "Retire", () => post(path("/v1/sessions", one.session_id, "retire"), undefined)));
  }

  open() {
    return this.list.load();
  }

  close() {}
}
