// One person: every way to them and how it was verified, what was decided, who they turned out to be.

import { call, path, post, read } from "./api.js";
import { decide, decided, decisions, explained, mark, verdict } from "./consent.js";
import { ask, reveal, sure, table } from "./dialogs.js";
import { h, icon, named, toast } from "./dom.js";
import { ago, exact, time } from "./format.js";
import { me } from "./login.js";
import { isName, list, verified, written } from "./people.js";
import { compose } from "./sends.js";

export class Person {
  constructor(id) {
    this.id = id;
    this.root = path("/v1/people", id);
    this.body = h("div", null, h("p.faint", null, "…"));
    this.element = h("div.sheet", null, this.body);
  }

  async open() {
    try {
      const [person, rows] = await Promise.all([read(this.root), decided({ person: this.id })]);
      if (this.closed) return;
      Object.assign(this, { person, rows });
      document.title = `${person.name} · threadline`;
      this.body.replaceChildren(...this.draw().filter(Boolean));
    } catch (problem) {
      if (problem.status === 401) return;
      this.body.replaceChildren(this.head("People", []), h("p.bad", { role: "alert" }, problem.message));
    }
  }

  head(title, tools) {
    return h("header.person-head", null,
      h("div.heading", null, h("a.back", { href: "#/people" }, icon("back"), "People"), h("h1", null, named(title))),
      h("span.acts", null, tools));
  }

  draw() {
    const { person } = this;
    const ways = person.contacts.filter((one) => !isName(one));
    return [
      this.head(person.name, [
        h("button", { type: "button", onclick: () => this.change() }, "Change"),
        h("button", { type: "button", onclick: () => this.merge() }, "Merge"),
        h("button.primary", { type: "button", onclick: () => compose({ to: `person:${person.id}`, whom: person.name }) },
          icon("first"), "Write first")]),
      h("dl.facts", null, [
        ["Speaks", named(person.languages.join(", ") || "not said: “stop” counts in every language we know")],
        ["Known since", h("time", { datetime: person.created_at, title: exact(person.created_at) }, ago(person.created_at))],
        ["Address", h("code", null, `person:${person.id}`)],
        person.merged.length && ["Known before as", h("span", null, person.merged.map((one) => [h("code", null, one), " "]))],
      ].filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
      h("section.ways", null,
        h("header", null, h("h2", null, "Ways to reach them"), h("span.acts", null,
          ways.length > 0 && h("button.small", { type: "button", onclick: () => this.code() }, "Verify by a code"),
          h("button.small", { type: "button", onclick: () => this.add() }, icon("plus"), "Add"))),
        table(["Address", "Theirs?", "Heard last", "Writing first", ""], person.contacts.map((one) => this.way(one)),
          "No address yet. Add one, or wait until they write.")),
      h("section.consents", null,
        h("header", null, h("h2", null, "Consent"), h("span.acts", null,
          h("button.small.danger", { type: "button", onclick: () => this.turn("off", "", true) }, "Turn off…"),
          h("button.small", { type: "button", disabled: !me.human, onclick: () => this.turn("on", "", true) }, "Turn on…"))),
        explained(),
        decisions(this.rows, (state, about) => this.turn(state, about))),
    ];
  }

  way(one) {
    const state = isName(one) ? null : verdict(this.rows, ["", one.provider]);
    return [h("span", null, h("span.badge.faint", null, named(one.provider)), " ", named(one.address, "bdi.name"),
      one.realm && h("span.faint", null, " in ", named(one.realm))),
    h("span", null, verified(one)),
    one.heard_at ? h("time", { datetime: one.heard_at, title: exact(one.heard_at) }, ago(one.heard_at)) : h("span.faint", null, "never"),
    isName(one) ? h("span.faint", null, "a name, not a place") : mark(state),
    h("span.acts", null,
      !one.verified_at && me.human && h("button.small", { type: "button", onclick: () => this.vouch(one) }, "Vouch"),
      this.person.contacts.length > 1 && h("button.small", { type: "button", onclick: () => this.split(one) }, "Split"),
      h("button.small.danger", { type: "button", onclick: () => this.take(one) }, "Remove"))];
  }

  async done(work) {
    const answer = await work;
    if (answer) await this.open();
    return answer;
  }

  turn(state, about, narrow = false) {
    const providers = [...new Set(this.person.contacts.filter((one) => !isName(one)).map((one) => one.provider))];
    return decide({ person: this.id }, state, { about, name: this.person.name, done: () => this.open(),
      choices: narrow ? [["", "everything"], ...providers.map((one) => [one, `on ${one}`])] : [] });
  }

  change() {
    const { person } = this;
    return this.done(ask({ title: `Change ${person.name}`, action: "Save",
      fields: [{ name: "name", label: "Name", required: true, value: person.name, longest: 200 },
        { name: "languages", label: "Languages", value: person.languages.join(", "), placeholder: "de, pt-BR",
          note: "Codes. Their words for “stop” are listened for, besides English; none means all that are known." }],
      submit: ({ name, languages }) => call("PATCH", this.root, { name, languages: list(languages) }) }));
  }

  add() {
    return this.done(ask({ title: "Add an address", action: "Add",
      fields: [{ name: "contact", label: "Address", required: true, placeholder: "telegram:4711",
        note: "PROVIDER:ADDRESS, email:ADDRESS or alias:NAME." },
      { name: "realm", label: "Where it is unique", half: true, placeholder: "T02ACME", note: "The team, for Slack; else nothing." },
      ...(me.human ? [{ name: "verified", label: "Is it theirs?", half: true,
        choices: [["", "not verified"], ["yes", "I vouch for it"]] }] : [])],
      submit: ({ contact, realm, verified: sure_ }) => call("PATCH", this.root, { contacts: [contact], realm, verified: sure_ === "yes" }) }));
  }

  vouch(one) {
    return this.done(sure(`Is ${written(one)} theirs?`, "You vouch for it: what is written there reaches this person.",
      "Vouch", () => call("PATCH", this.root, { contacts: [written(one)], realm: one.realm, verified: true })));
  }

  take(one) {
    return this.done(sure("Remove this address?", `${written(one)} is no way to ${this.person.name} any more. What was said there stays.`,
      "Remove", () => call("PATCH", this.root, { without: [written(one)], realm: one.realm })));
  }

  async code() {
    const providers = [...new Set(this.person.contacts.filter((one) => !isName(one)).map((one) => one.provider))];
    const made = await ask({ title: "Verify by a code", action: "Make code",
      about: `Give ${this.person.name} the code where you already know them. Said in the other channel, it proves that this channel is theirs.`,
      fields: [{ name: "provider", label: "It counts", choices: [["", "anywhere"], ...providers.map((one) => [one, `on ${one}`])] }],
      submit: ({ provider }) => post(`${this.root}/code`, { provider }) });
    if (!made) return;
    const box = reveal("The code", `${this.person.name} says it in the channel that is to be verified, once, until ${time(made.expires_at)}. It is shown now and never again.`, made.code);
    box.addEventListener("close", () => this.open());
  }

  merge() {
    return this.done(ask({ title: `Who is ${this.person.name} as well?`, action: "Merge", danger: true,
      about: "Both are one person from then on: this one keeps all that is known of either. No record is lost, and OFF wins.",
      fields: [{ name: "other", label: "The other", required: true, placeholder: "a person’s id, email:… or telegram:…" }],
      submit: async ({ other }) => {
        const id = other.includes(":") && !other.startsWith("person:")
          ? (await read(path("/v1/people/find", { by: other }))).id : other.replace(/^person:/, "");
        return post(`${this.root}/merge`, { other: id });
      } }));
  }

  async split(one) {
    const made = await ask({ title: `Is ${written(one)} somebody else’s?`, action: "Split", danger: true,
      about: "A new person has this address from then on. What was said stays where it is.",
      fields: [{ name: "name", label: "Their name", longest: 200, placeholder: one.address }],
      submit: ({ name }) => post(`${this.root}/split`, { contact: written(one), realm: one.realm, name }) });
    if (!made) return;
    toast(`${made.name || "A new person"} has it now.`);
    location.hash = `#/people/${encodeURIComponent(made.id)}`;
  }

  close() {
    this.closed = true;
  }
}
