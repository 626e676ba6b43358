// The rooms at the side: found by name, with what is out of the ordinary about each.

import { path, post, read } from "./api.js";
import { ask } from "./dialogs.js";
import { h, icon, named, polling, remember, remembered, show, tool } from "./dom.js";
import { count, number } from "./format.js";

const PAGE = 200;
const AT_ONCE = 300;
// So many are read unasked: rooms come by address, and those in use may be the last.
const UNASKED = 1000;

/** Whether a room is history alone: it was imported, and nobody speaks or reads there. */
const archived = (room) => ["complete", "failed"].includes(room.hydration) && !room.bound && !room.grouped;

export class Rooms {
  constructor({ open }) {
    this.open = open;
    this.all = [];
    this.chosen = null;
    this.next = null;
    this.seen = JSON.parse(remembered("seen") ?? "{}");
    this.field = h("input", { type: "search", placeholder: "Filter rooms", "aria-label": "Filter rooms",
      autocomplete: "off", spellcheck: "false", oninput: () => this.draw(),
      onkeydown: (event) => this.key(event) });
    this.list = h("ul", { "aria-label": "Rooms", onkeydown: (event) => this.key(event) });
    this.note = h("p.empty", { hidden: true });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.further() }, "Load more rooms");
    this.element = h("nav.rooms", { "aria-label": "Rooms" },
      h("div.filter", null, this.field, tool("plus", "New room", () => this.create())),
      h("div.scroll", null, this.list, this.note, this.more));
    this.poll = polling(() => this.load(), 6);
  }

  get(id) {
    return this.all.find((one) => one.id === id);
  }

  async load() {
    try {
      const wanted = Math.max(UNASKED, this.all.length);
      const found = [];
      let after = "";
      do {
        const page = await read(path("/v1/conversations", { limit: PAGE, after }));
        found.push(...page.conversations);
        after = page.next;
      } while (after && found.length < wanted);
      this.all = found;
      this.next = after;
      this.loaded = true;
      this.draw();
    } catch (problem) {
      if (problem.status === 401) return;
      if (!this.loaded) this.say(problem.message);
    }
  }

  async further() {
    const page = await read(path("/v1/conversations", { limit: PAGE, after: this.next }));
    this.all.push(...page.conversations);
    this.next = page.next;
    this.draw();
  }

  say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  draw() {
    const words = this.field.value.trim().toLocaleLowerCase().split(/\s+/);
    const found = this.all.filter((one) => {
      const text = `${one.title} ${one.text}`.toLocaleLowerCase();
      return words.every((word) => text.includes(word));
    });
    const focused = this.list.contains(document.activeElement)
      ? document.activeElement.closest("li")?.dataset.id : null;
    let group = "";
    const rows = [];
    // What is in use stands before what was only brought along.
    const sorted = [...found.filter((one) => !archived(one)), ...found.filter(archived)];
    for (const room of sorted.slice(0, AT_ONCE)) {
      const place = `${room.ref.provider} · ${room.ref.account_id}${archived(room) ? " · history" : ""}`;
      if (place !== group) rows.push(h("li.group", { role: "presentation" }, named((group = place))));
      rows.push(this.item(room));
    }
    show(this.list, rows);
    if (focused) this.list.querySelector(`li[data-id="${CSS.escape(focused)}"] a`)?.focus();
    this.more.hidden = !this.next;
    const left = found.length - AT_ONCE;
    this.say(!this.all.length ? "No room yet. Make one, or let an adapter bring its own."
      : !found.length ? "No room has these words."
        : left > 0 ? `${number(left)} more; filter to find them.` : "");
  }

  item(room) {
    const here = room.id === this.chosen;
    if (here) this.mark(room.id, room.head);
    const known = this.seen[room.id];
    const unread = known === undefined ? 0 : Math.max(0, room.head - known);
    const marks = [];
    if (room.hydration === "pending") marks.push(h("span.mark.warm", null, "importing"));
    if (room.history === "partial") marks.push(h("span.mark.warm", { title: room.reason }, "partial"));
    if (room.held) marks.push(h("span.mark.warm", { title: "Waiting on the hold" }, `${number(room.held)} held`));
    if (!room.bound && !room.grouped) marks.push(h("span.mark", { title: "Nobody speaks here" }, "no speaker"));
    return h("li", { dataset: { id: room.id } },
      h("a", { href: `#/rooms/${encodeURIComponent(room.id)}`, "aria-current": here ? "page" : null,
        class: unread ? "unread" : "" },
      h("span.title", null, named(room.title || room.ref.conversation_id)),
      unread ? h("span.count", { title: `${count(unread, "new record")}` }, unread > 999 ? "999+" : unread)
        : h("span.count.quiet", { title: count(room.head - room.earliest_sequence + 1, "record") },
          number(room.head - room.earliest_sequence + 1)),
      h("span.facts", null, room.kind, " · ", count(room.members, "member"), marks)));
  }

  /** This person has seen a room up to here. */
  mark(id, head) {
    if (this.seen[id] >= head) return;
    this.seen[id] = head;
    clearTimeout(this.saving);
    this.saving = setTimeout(() => remember("seen", JSON.stringify(this.seen)), 500);
  }

  choose(id) {
    this.chosen = id;
    for (const link of this.list.querySelectorAll("a")) {
      const here = link.closest("li").dataset.id === id;
      if (here) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  key(event) {
    const links = [...this.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const inField = event.target === this.field;
    const down = event.key === "ArrowDown" || (!inField && event.key === "j");
    const up = event.key === "ArrowUp" || (!inField && event.key === "k");
    if (inField && event.key === "Enter") links[0]?.click();
    else if (down) links[Math.min(at + 1, links.length - 1)]?.focus();
    else if (up && at <= 0) this.field.focus();
    else if (up) links[at - 1]?.focus();
    else return;
    event.preventDefault();
  }

  async create() {
    const made = await ask({
      title: "New room",
      about: "A room of the built-in web chat. Share a link to it, and let sessions join.",
      action: "Create room",
      fields: [
        { name: "title", label: "Title", required: true, placeholder: "Product feedback" },
        { name: "account", label: "Account", value: "chat", required: true, half: true,
          note: "Rooms of one account belong together." },
        { name: "id", label: "Id", half: true, placeholder: "from the title",
          note: "Part of its address, for ever." },
      ],
      submit: ({ title, account, id }) => post("/v1/conversations", {
        provider: "web", account_id: account, kind: "room", title,
        conversation_id: id || slug(title),
      }),
    });
    if (!made) return;
    await this.load();
    this.open(made.id);
  }

  close() {
    this.poll.stop();
  }
}

/** A title as a part of an address; what is left where it has no plain letters is made up. */
function slug(title) {
  const plain = title.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  return (plain || "room").slice(0, 60) + (plain ? "" : `-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`);
}

/** The first thing somebody sees who has no room. */
export const nothing = (rooms) => h("div.nothing", null,
  icon("rooms"), h("h2", null, rooms.all.length ? "Choose a room" : "No room yet"),
  h("p.faint", null, rooms.all.length
    ? "Or press / to search in all that was said."
    : "Make a web room and share its link, import an export, or connect a place where people talk."),
  rooms.all.length ? null : h("button.primary", { type: "button", onclick: () => rooms.create() }, "New room"));
