// People: who somebody is on several platforms, and how we know that it is them.

import { path, post, read } from "./api.js";
import { ask, paged, table } from "./dialogs.js";
import { h, icon, named } from "./dom.js";
import { ago, exact } from "./format.js";
import { me } from "./login.js";

const NAMES = new Set(["email", "alias"]);
const HOW = { inbound: "wrote from it", code: "said a code there", controller: "a human vouched for it" };
const PAUSE = 200;

/** A way to a person on one line: the platform, its address, and whether it is known to be theirs. */
export function contact(one) {
  return h("span.contact", { title: one.verified_at ? `Verified: ${HOW[one.how] ?? one.how}, ${exact(one.verified_at)}` : "Not verified" },
    h("span.badge.faint", null, named(one.provider)), named(one.address),
    one.realm && h("span.faint", null, " in ", named(one.realm)),
    one.verified_at ? icon("check") : h("span.unsure", { "aria-label": "not verified" }, "?"));
}

/** Whether an address is known to be theirs, in words. */
export function verified(one) {
  if (!one.verified_at)
    return [h("span.state", { class: "pending" }, "not verified")];
  return [h("span.state", { class: "delivered" }, "verified"), " ",
    h("span.faint", { title: exact(one.verified_at) }, `${HOW[one.how] ?? one.how}, ${ago(one.verified_at)}`)];
}

export const written = (one) => `${one.provider}:${one.address}`;
export const isName = (one) => NAMES.has(one.provider);
export const list = (text) => text.split(/[\s,;]+/).filter(Boolean);

export class People {
  constructor() {
    this.found = [];
    this.field = h("input", { type: "search", placeholder: "Name, e-mail, telegram:4711, alias:ann", "aria-label": "Find a person",
      autocomplete: "off", spellcheck: "false", oninput: () => this.typed() });
    this.note = h("p.empty", { role: "status", hidden: true });
    this.list = paged(async (after) => {
      const page = await read(path("/v1/people", { limit: 100, after }));
      return { items: page.people, next: page.next };
    }, (items) => {
      this.all = items;
      return this.draw();
    });
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "People"),
        h("button.primary", { type: "button", onclick: () => this.create() }, icon("plus"), "New person")),
      h("div.search", null, icon("search"), this.field), this.note, this.list.element);
    this.all = [];
  }

  get words() {
    return this.field.value.trim().toLocaleLowerCase();
  }

  draw() {
    const words = this.words.split(/\s+/).filter(Boolean);
    const text = (one) => [one.name, one.id, ...one.contacts.map(written), ...one.merged].join(" ").toLocaleLowerCase();
    const near = this.all.filter((one) => words.every((word) => text(one).includes(word)));
    const rows = [...this.found.filter((one) => !near.some((it) => it.id === one.id)), ...near];
    return table(["Name", "Reached by", "Languages", "Known since"], rows.map((one) => [
      h("a.name", { href: `#/people/${encodeURIComponent(one.id)}` }, named(one.name)),
      h("span.contacts", null, one.contacts.length ? one.contacts.map(contact) : h("span.faint", null, "nothing yet")),
      named(one.languages.join(", ") || "–"),
      h("time", { datetime: one.created_at, title: exact(one.created_at) }, ago(one.created_at))]),
    words.length ? "Nobody is found by these words." : "Nobody is known yet. Whoever writes becomes a person by that; or make one who is to be written to.");
  }

  redraw() {
    this.list.element.querySelector(".paged").replaceChildren(this.draw());
  }

  /** Those that are here at once; then the server, which knows everybody by a whole name or address. */
  typed() {
    clearTimeout(this.timer);
    this.found = [];
    this.note.hidden = true;
    this.redraw();
    const words = this.field.value.trim();
    if (words.length > 1) this.timer = setTimeout(() => this.look(words), PAUSE);
  }

  async look(words) {
    let why = "";
    const none = (problem) => {
      if (problem.status !== 404 && problem.status !== 400) why = problem.message;
      return null;
    };
    const by = words.includes(":") ? words : words.includes("@") ? `email:${words}` : `alias:${words}`;
    const [one, page] = await Promise.all([
      read(path("/v1/people/find", { by })).catch(none),
      read(path("/v1/people", { name: words, limit: 100 })).catch(none),
    ]);
    if (words !== this.field.value.trim()) return;
    this.note.hidden = !why;
    this.note.textContent = why && `Not everybody was looked through: ${why}`;
    this.found = [...(one ? [one] : []), ...(page?.people ?? []).filter((it) => it.id !== one?.id)];
    this.redraw();
  }

  async create() {
    const made = await ask({ title: "New person", action: "Make person",
      about: "Somebody who is to be known before they write.",
      fields: [{ name: "name", label: "Name", required: true, longest: 200, placeholder: "Ann Example" },
        { name: "contacts", label: "Reached by", lines: 3, placeholder: "telegram:4711\nemail:ann@example.org\nalias:ann",
          note: "One a line: PROVIDER:ADDRESS, email:ADDRESS or alias:NAME." },
        { name: "languages", label: "Languages", half: true, placeholder: "de, pt-BR", note: "Whose word for “stop” is listened for." },
        ...(me.human ? [{ name: "verified", label: "Are these theirs?", half: true,
          choices: [["", "not verified"], ["yes", "I vouch for them"]] }] : [])],
      submit: ({ name, contacts, languages, verified: sure }) => post("/v1/people", {
        name, contacts: contacts.split("\n").map((one) => one.trim()).filter(Boolean), languages: list(languages), verified: sure === "yes" }) });
    if (made) location.hash = `#/people/${encodeURIComponent(made.id)}`;
  }

  open() {
    this.field.focus({ preventScroll: true });
    return this.list.load();
  }

  close() {
    clearTimeout(this.timer);
  }
}
