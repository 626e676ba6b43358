// What was allowed, refused and done, newest first, and whether anybody changed it.

import { path, read } from "./api.js";
import { paged, table } from "./dialogs.js";
import { h, icon, named } from "./dom.js";
import { count, exact, number, when } from "./format.js";
import { reason } from "./sends.js";

const ACTIONS = [
  ["Sends", ["send", "send.scheduled", "send.delivered", "send.failed", "send.uncertain", "send.expired", "send.cancelled",
    "send.suppressed", "send.refused", "send.resent"]],
  ["Consent and limits", ["consent.on", "consent.off", "limits.changed", "account.granted", "account.withdrawn"]],
  ["People", ["person.made", "person.merged", "person.split", "contact.added", "contact.verified", "contact.taken", "code.given"]],
  ["Rooms", ["member.evicted"]],
];
const BAD = /refused|failed|off$|withdrawn|evicted|erased|expired/;
const GOOD = /delivered|on$|granted|verified/;

const tone = (action) => (BAD.test(action) ? "failed" : GOOD.test(action) ? "delivered" : "cancelled");

/** What else is known, as `name value` beside each other. */
function facts(entry) {
  const rows = Object.entries(entry.facts);
  return rows.length ? h("dl.inline", null, rows.map(([name, value]) => h("div", null,
    h("dt", null, named(name.replaceAll("_", " "))), h("dd", null, name === "reason" ? reason(String(value)) : named(typeof value === "object" ? JSON.stringify(value) : String(value)))))) : "";
}

/** Whom or what it is about, with the way there where there is one. */
function subject({ action, subject: text }) {
  if (action.startsWith("send") && action !== "send.refused")
    return h("a.id", { href: `#/sends/${encodeURIComponent(text)}` }, named(text));
  const person = /^person:? ?([0-9A-Za-z]{4,})$/.exec(text)?.[1];
  return person ? h("a.id", { href: `#/people/${encodeURIComponent(person)}` }, named(text)) : named(text);
}

export class Audit {
  constructor() {
    const load = () => this.list.load();
    this.action = h("select", { "aria-label": "Action", onchange: load }, h("option", { value: "" }, "All actions"),
      ACTIONS.map(([label, names]) => h("optgroup", { label }, names.map((one) => h("option", { value: one }, one)))));
    this.since = h("input", { type: "date", "aria-label": "Since", onchange: load });
    this.words = h("input", { type: "search", placeholder: "Filter by who, whom, why", "aria-label": "Filter entries", autocomplete: "off",
      oninput: () => this.redraw() });
    this.verdict = h("div.proof", { role: "status", hidden: true });
    this.button = h("button.primary", { type: "button", onclick: () => this.verify() }, icon("chain"), "Verify");
    this.items = [];
    this.list = paged(async (before) => {
      const page = await read(path("/v1/audit", { limit: 100, before, action: this.action.value,
        since: this.since.value && new Date(`${this.since.value}T00:00`).toISOString() }));
      return { items: page.entries, next: page.next };
    }, (items) => {
      this.items = items;
      return this.draw();
    });
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "Audit"), this.button),
      h("p.lead.faint", null, "Every entry is chained to the one before by a keyed hash, so a change shows."),
      this.verdict, h("div.filters", null, this.action, this.since, this.words), this.list.element);
  }

  draw() {
    const words = this.words.value.trim().toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const text = (one) => `${one.number} ${one.by} ${one.action} ${one.subject} ${JSON.stringify(one.facts)}`.toLocaleLowerCase();
    const seen = this.items.filter((one) => words.every((word) => text(one).includes(word)));
    return table(["#", "When", "By", "Action", "Subject", "Facts"], seen.map((one) => [
      h("span.faint.digits", null, number(one.number)), h("time", { datetime: one.at, title: exact(one.at) }, when(one.at)),
      named(one.by, "bdi.whole"), h("span.state", { class: tone(one.action) }, named(one.action)), subject(one), facts(one)]),
    this.items.length ? "None of those that are loaded." : "Nothing of this happened.");
  }

  redraw() {
    this.list.element.querySelector(".paged").replaceChildren(this.draw());
  }

  async verify() {
    this.button.disabled = true;
    this.verdict.hidden = false;
    this.verdict.className = "proof";
    this.verdict.replaceChildren(h("p", null, "Reading all of it…"));
    try {
      const found = await read("/v1/audit/verify");
      this.verdict.classList.add(found.whole ? "good" : "bad");
      this.verdict.replaceChildren(icon(found.whole ? "check" : "close"), h("p", null,
        h("strong", null, found.whole ? "The record is whole." : `The record was changed at entry ${number(found.broken_at)}.`), " ",
        found.whole ? `${count(found.entries, "entry", "entries")} read, each one fits the one before.`
          : named(found.reason), " ", h("time.faint", null, when(new Date().toISOString()))));
    } catch (problem) {
      this.verdict.classList.add("bad");
      this.verdict.replaceChildren(icon("close"), h("p", null, problem.message));
    } finally {
      this.button.disabled = false;
    }
  }

  open() {
    return this.list.load();
  }

  close() {}
}
