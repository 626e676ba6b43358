// Whether somebody may be written to first: what was decided, by whom, and the switch.

import { path, put, read } from "./api.js";
import { ask, table } from "./dialogs.js";
import { h, named } from "./dom.js";
import { ago, exact } from "./format.js";
import { me } from "./login.js";

export const NOT_HUMAN = "Only a human turns this on. The token of this login is not marked human: "
  + "log in with one that is, such as the administrator’s.";

/** What was decided about `{person}` or `{conversation}`, each row once. */
export const decided = async (subject) => (await read(path("/v1/consent", subject))).consents;

/** What a decision is about, as a person says it. */
export function scope(about) {
  if (!about) return "everything";
  return about.startsWith("session:") ? ["session ", named(about.slice(8))] : ["on ", named(about)];
}

/**
 * Whether writing first is allowed where these abouts count: any OFF is enough to forbid it, and
 * without one an ON is needed. `null` where nobody decided.
 */
export function verdict(rows, abouts) {
  const known = rows.filter((one) => abouts.includes(one.about));
  if (known.some((one) => one.state === "off")) return "off";
  return known.length ? "on" : null;
}

export const WORDS = { on: "may be written to", off: "not to be written to" };

export const mark = (state) => h("span.state", { class: state === "on" ? "delivered" : state === "off" ? "failed" : "cancelled" },
  WORDS[state] ?? "nobody decided");

/** Who decided, when and why. */
export const by = (row) => [named(whom(row.by)), " ",
  h("time", { datetime: row.at, title: exact(row.at) }, ago(row.at))];

const whom = (who) => (who.startsWith("person ") ? "the person" : who);

/** The form behind every switch. `choices` are `[about, label]` where it can be narrowed. */
export function decide(subject, state, { about = "", choices = [], done, name }) {
  const on = state === "on";
  const fields = [{ name: "why", label: "Why", placeholder: on ? "They asked for it on the phone." : "They do not want it.",
    note: "It is kept with the decision, and in the audit." }];
  if (choices.length) fields.unshift({ name: "about", label: "For", value: about, choices });
  return ask({
    title: on ? `Let ${name} be written to?` : `Stop writing to ${name}?`,
    about: on ? "Sessions that have an account granted may write first from now on, within the limits."
      : "Nothing more is said first from now on. It stays off until a human turns it on.",
    action: on ? "Turn on" : "Turn off", danger: !on, fields,
    submit: (values) => put("/v1/consent", { ...subject, state, about: values.about ?? about, why: values.why }),
  }).then((made) => made && done());
}

/** On and off: on only where a human asks, with the reason beside it where not. */
export function switches(state, turn) {
  const off = state !== "off" && h("button.small.danger", { type: "button", onclick: () => turn("off") }, "Turn off");
  const on = state !== "on" && h("button.small", { type: "button", disabled: !me.human, title: me.human ? null : NOT_HUMAN,
    onclick: () => turn("on") }, "Turn on");
  return [on, off];
}

export const explained = () => !me.human && h("p.quiet.faint", null, NOT_HUMAN);

/** All decisions about somebody, each with its switch. */
export function decisions(rows, turn) {
  return table(["For", "State", "By", "When", "Why", ""], rows.map((row) => [
    h("span", null, scope(row.about)), h("span.state", { class: row.state === "on" ? "delivered" : "failed" }, row.state),
    named(whom(row.by)), h("time", { datetime: row.at, title: exact(row.at) }, ago(row.at)), named(row.why),
    h("span.acts", null, switches(row.state, (state) => turn(state, row.about)))]),
  "Nobody decided yet. Until somebody does, nothing is said first: who writes gives consent by that, else a human turns it on.");
}
