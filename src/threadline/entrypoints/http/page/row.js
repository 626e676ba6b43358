// One entry of a transcript as a person reads it.

import { h, icon, named } from "./dom.js";
import { day, exact, number, said, size, time } from "./format.js";
import { line, prose } from "./prose.js";

const TOGETHER = 5 * 60 * 1000;
const EVENTS = {
  edit: "edited a message",
  delete: "deleted a message",
  reaction: "reacted",
  member: "",
  notice: "",
};

export const author = (record) => record.actor.name || record.source_session_id || record.actor.id;

/** The send a record belongs to where its session wrote first, else null. */
const first = (record) => (record.source_session_id && record.direction === "outbound"
  && typeof record.metadata?.send === "string" ? record.metadata.send : null);

/** Whether this one goes on where the one before stopped, so that the name need not stand again. */
function together(before, record) {
  return before?.event === "message" && before.direction === record.direction
    && before.actor.id === record.actor.id && author(before) === author(record)
    && !first(record) && before.copied_from === record.copied_from && before.provenance === record.provenance
    && !record.reply_to && newDay(before, record) === null
    && Date.parse(said(record)) - Date.parse(said(before)) < TOGETHER;
}

function newDay(before, record) {
  const today = day(said(record));
  return before && day(said(before)) === today ? null : today;
}

/**
 * An `article` for the record at a sequence. `view` says how: `guest` leaves out what is for
 * operators, `mine(record)` are one's own words, `reply`, `go` and `link` are what can be done,
 * `file(sequence, number)` is where a file is.
 */
export function row(model, sequence, view) {
  const record = model.at(sequence);
  const facts = {
    tabindex: -1,
    "aria-posinset": sequence - model.earliest + 1,
    "aria-setsize": model.length,
  };
  if (!record && model.without(sequence))
    return h("article.row.hidden", { ...facts, "aria-hidden": "true" });
  if (!record) return h("article.row.blank", { ...facts, "aria-label": "Loading" }, h("i"));
  const before = model.at(sequence - 1);
  const date = newDay(before, record);
  const heading = date && h("div.day", null, h("span", null, date));
  if (record.event !== "message") {
    if (view.guest && record.event !== "notice" && record.event !== "member")
      return h("article.row.hidden", { ...facts, "aria-hidden": "true" }, heading);
    return h("article.row.event", { ...facts, class: record.event, "aria-label": spoken(record) },
      heading, gutter(record, view), h("div.body", null, event(model, record, view)));
  }
  const goes = together(before, record);
  const mine = view.mine?.(record);
  return h(
    "article.row.message",
    {
      ...facts,
      class: [goes && "on", mine && "mine", record.direction, record.provenance,
        record.deleted && "gone"].filter(Boolean).join(" "),
      "aria-label": spoken(record),
    },
    heading,
    gutter(record, view),
    h("div.body", null,
      goes ? (view.guest ? null : routed(record, view)) : head(record, mine, view),
      quote(model, record, view),
      content(record),
      files(record, view),
      foot(record)),
    acts(record, view),
  );
}

function spoken(record) {
  const what = record.event === "message"
    ? (record.deleted ? "deleted message" : line(record.text, 200))
    : `${EVENTS[record.event]} ${line(record.text, 100)}`;
  return `${author(record)}, ${time(said(record))}: ${what}`;
}

function gutter(record, view) {
  if (view.guest) return null;
  const woken = record.wakes?.length ?? 0;
  const state = woken ? "wakes" : record.provenance === "hydrated" ? "old" : "still";
  const title = woken
    ? `Wakes ${woken} session${woken === 1 ? "" : "s"}`
    : record.provenance === "hydrated" ? "Imported from history" : "Stored, wakes nobody";
  return h("div.gutter", null,
    h("a.sequence", { href: view.link(record.sequence), tabindex: -1, title: "Link to this record" },
      number(record.sequence)),
    h("span.knot", { class: `${state} ${record.direction}`, title }));
}

function head(record, mine, view) {
  const at = said(record);
  const bot = record.actor.is_bot || record.source_session_id;
  return h("header", null,
    h("bdi.name", { title: view.guest ? null : record.actor.id, class: hue(record.source_session_id ?? record.actor.id) },
      mine ? "You" : author(record)),
    bot && h("span.badge", null, record.source_session_id ? "agent" : "bot"),
    !view.guest && first(record) && h("a.badge.first", { href: `#/sends/${encodeURIComponent(first(record))}`, tabindex: -1,
      title: "Said on its own initiative, without being asked" }, icon("first"), "wrote first"),
    record.metadata?.guest === true && !mine && h("span.badge.faint", {
      title: "This person chose the name; nobody checked it." }, "guest"),
    h("time", { datetime: at, title: exact(at) }, time(at)),
    view.guest ? null : routed(record, view));
}

/** One of eight quiet colours, the same for the same person. */
function hue(id) {
  let sum = 7;
  for (const sign of id) sum = (sum * 31 + sign.codePointAt(0)) % 8192;
  return `hue${sum % 8}`;
}

function routed(record, view) {
  const marks = [];
  if (record.explicit_target) marks.push(h("span", { title: "Addressed" }, "@", named(record.explicit_target)));
  if (record.target_session_id)
    marks.push(h("span.route", { title: `Chosen to speak, by ${record.route ?? "a rule"}` },
      "→ ", named(record.target_session_id), record.route ? ` · ${record.route}` : ""));
  if (record.copied_from !== null && record.copied_from !== undefined)
    marks.push(h("span", null, "copied from the room"));
  const { origin } = record;
  if (origin && origin.conversation !== view.here)
    marks.push(h("a", { href: `#/rooms/${encodeURIComponent(origin.conversation)}/${origin.sequence}`, tabindex: -1,
      title: `Root ${origin.root || "unknown"}, ${origin.hops} wakes in between` }, "about another room"));
  return marks.length ? h("span.marks", null, marks) : null;
}

function quote(model, record, view) {
  if (!record.reply_to) return null;
  const target = model.named(record.reply_to, record.id_space);
  if (!target) return h("div.quote", null, "In reply to an earlier message");
  return h("button.quote", { type: "button", tabindex: -1, onclick: () => view.go(target.sequence),
    "aria-label": `In reply to ${author(target)}: ${line(target.text, 100)}` },
    named(view.mine?.(target) ? "You" : author(target), "bdi.name"), " ",
    target.deleted ? h("em", null, "deleted") : h("span", { dir: "auto" }, line(target.text)));
}

function content(record) {
  if (record.deleted) return h("div.text.tombstone", null, "This message was deleted.");
  return record.text ? prose(record.text) : null;
}

/** The server says under which name they are saved; here the sender's own is read. */
function files(record, view) {
  if (record.deleted || !record.attachments?.length) return null;
  return h("ul.files", null, record.attachments.map((file, number) => {
    const name = file.name || "file";
    return h("li", null, h("a", { href: view.file(record.sequence, number), download: "", tabindex: -1,
      title: "Save this file", "aria-label": `Save ${line(name, 80)}` },
    icon("file"), h("bdi.name", null, name),
    h("span.faint", null, [file.type, size(file.size)].filter(Boolean).join(" · "))));
  }));
}

function foot(record) {
  const parts = [];
  for (const [sign, people] of record.reactions ?? [])
    parts.push(h("span.reaction", { title: people.join(", ") }, line(sign, 20),
      people.length > 1 ? ` ${people.length}` : ""));
  if (record.revision && !record.deleted)
    parts.push(h("span.edited", null, record.revision > 1 ? `edited ${record.revision} times` : "edited"));
  if (record.refused) parts.push(h("span.bad", null, `refused: ${record.refused}`));
  if (record.metadata?.parts) parts.push(h("span.bad", null, `parts: ${line(String(record.metadata.parts), 20)}`));
  return parts.length ? h("footer", null, parts) : null;
}

function acts(record, view) {
  const found = [];
  if (view.reply && !record.deleted)
    found.push(h("button.tool", { type: "button", title: "Reply (r)", "aria-label": "Reply",
      tabindex: -1, onclick: () => view.reply(record) }, icon("reply")));
  if (!record.deleted && record.text)
    found.push(h("button.tool", { type: "button", title: "Copy (c)", "aria-label": "Copy text",
      tabindex: -1, onclick: () => view.copy(record) }, icon("copy")));
  return h("div.acts", null, found);
}

/** What kind of notice: by what the system wrote beside its words. */
function noted(record) {
  const facts = record.metadata ?? {};
  if (typeof facts.intent === "string") return ["quiet", "Not said again"];
  if (facts.undelivered) return ["close", "Did not arrive"];
  if (facts.moved_to || facts.moved_from) return ["link", "Moved"];
  if (facts.gap) return ["note", "A gap"];
  return ["note", "Notice"];
}

/** Edits, deletes, reactions and members on one quiet line; a notice in a box of its own. */
function event(model, record, view) {
  const at = h("time", { datetime: said(record), title: exact(said(record)) }, time(said(record)));
  const target = record.revises ? model.named(record.revises, record.id_space) : null;
  const about = target && h("button.about", { type: "button", tabindex: -1,
    onclick: () => view.go(target.sequence) }, `#${number(target.sequence)}`);
  const refused = record.refused && h("span.bad", null, `refused: ${record.refused}`);
  if (record.event === "notice") {
    const [drawing, label] = noted(record);
    const text = record.text.startsWith(`${label}: `) ? record.text.slice(label.length + 2) : record.text;
    return h("div.told", null, h("p.kind", null, icon(drawing), label, at, refused), text ? prose(text) : null);
  }
  if (record.event === "member") {
    const by = !record.text.includes(author(record));
    return h("p", null, by && [named(author(record)), " "],
      h("span", { dir: "auto" }, line(record.text, 500) || record.event), at, refused);
  }
  const words = record.event === "reaction" && record.text ? `reacted ${line(record.text, 20)}` : EVENTS[record.event];
  return h("p", null, named(author(record)), " ", words, " ", about, at, refused);
}
