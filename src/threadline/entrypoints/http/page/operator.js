// The operator's page: who is there, which place is open, and the keys that work everywhere.

import { Audit } from "./audit.js";
import { Deliveries } from "./deliveries.js";
import { dialog } from "./dialogs.js";
import { h, icon, show, theme, toast, tool, writing } from "./dom.js";
import { Health } from "./health.js";
import { Limits } from "./limits.js";
import { door, known, leave } from "./login.js";
import { More } from "./more.js";
import { palette } from "./palette.js";
import { People } from "./people.js";
import { Person } from "./person.js";
import { missing, Room } from "./room.js";
import { nothing, Rooms } from "./rooms.js";
import { compose, Sends } from "./sends.js";
import { Sessions } from "./sessions.js";
import { Tokens } from "./tokens.js";

const PLACES = [
  ["rooms", "Rooms", "rooms", "Who talks where, and all that was said"],
  ["people", "People", "person", "Who they are, and whether they may be written to"],
  ["sends", "Sends", "first", "What sessions say on their own initiative"],
  ["deliveries", "Deliveries", "outbox", "What became of all that was said"],
  ["sessions", "Sessions", "people", "The agents’ seats, and what they read"],
  ["limits", "Limits", "gauge", "How often, and through which accounts"],
  ["tokens", "Tokens", "key", "Who may call"],
  ["audit", "Audit", "chain", "What was allowed, refused and done"],
  ["health", "Health", "pulse", "How the server does"],
];
// Those that have room on a telephone; the others stand behind "More".
const NEAR = 4;
const FAR = PLACES.slice(NEAR);
const SHEETS = {
  people: (id) => (id ? new Person(id) : new People()), sends: (id) => new Sends(id), deliveries: () => new Deliveries(),
  sessions: () => new Sessions(), limits: () => new Limits(), tokens: () => new Tokens(), audit: () => new Audit(),
  health: () => new Health(), more: () => new More(FAR),
};
const STATES = { live: "Live", waiting: "Reconnecting…", offline: "No connection" };

const app = document.getElementById("app");
let page = null;

class Page {
  constructor(who) {
    this.who = who;
    this.rooms = new Rooms({ open: (id) => this.go(id) });
    this.line = h("span.line", { role: "status", hidden: true });
    this.links = Object.fromEntries([...PLACES, ["more", "More", "more"]].map(([name, label, drawing], at) =>
      [name, h("a", { href: `#/${name}`, class: name === "more" ? "beyond" : at < NEAR ? "" : "far" }, icon(drawing), h("span", null, label))]));
    this.stage = h("main.stage-holder", { id: "main", tabindex: -1 });
    this.element = h("div.shell", null,
      h("header.top", null,
        h("a.brand", { href: "#/rooms", "aria-label": "threadline: all rooms" },
          h("img", { src: "/assets/mark.svg", alt: "", width: 24, height: 24 }), h("span", null, "threadline")),
        h("nav.places", { "aria-label": "Places" }, Object.values(this.links)),
        this.line,
        h("div.tools", null,
          h("button.finder", { type: "button", onclick: () => this.find() }, icon("search"),
            h("span", null, "Search"), h("kbd", null, "/")),
          tool("moon", "Light or dark", () => theme(true)),
          tool("leave", "Log out", () => this.leave()))),
      h("div.below", null, this.rooms.element, this.stage));
    this.view = null;
    this.moved = () => this.route();
    this.pressed = (event) => this.key(event);
    addEventListener("hashchange", this.moved);
    document.addEventListener("keydown", this.pressed);
  }

  async open() {
    await this.rooms.load();
    this.route();
  }

  /** Open a room, at a record; where that is an edit and `folded`, at what it edits. */
  go(id, sequence = null, folded = false) {
    this.folded = folded;
    const to = `#/rooms/${encodeURIComponent(id)}${sequence === null ? "" : `/${sequence}`}`;
    if (location.hash === to) this.route();
    else location.hash = to;
  }

  route() {
    const [, place = "rooms", id, sequence] = location.hash.split("/").map(decoded);
    const name = place in this.links ? place : "rooms";
    for (const [one, link] of Object.entries(this.links))
      if (one === name) link.setAttribute("aria-current", "page");
      else if (one === "more" && FAR.some(([far]) => far === name)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    const folded = this.folded;
    this.folded = false;
    const at = sequence !== undefined && /^-?\d{1,15}$/.test(sequence) ? Number(sequence) : null;
    if (name === "rooms" && id && this.view instanceof Room && this.view.id === id) {
      if (at !== null) this.view.goTo(at, folded);
      return;
    }
    this.put(name, id, at, folded);
  }

  put(name, id, at, folded = false) {
    this.view?.close();
    this.view = null;
    this.element.dataset.place = name === "rooms" && id ? "room" : name;
    document.title = "threadline";
    this.rooms.choose(name === "rooms" ? id ?? null : null);
    if (name !== "rooms") {
      this.view = SHEETS[name](id);
      show(this.stage, this.view.element);
      this.view.open();
      document.title = `${this.links[name].textContent} · threadline`;
    } else if (id) {
      const room = new Room(id, {
        told: (state) => this.told(state),
        back: () => { location.hash = "#/rooms"; },
        gone: (why) => this.gone(room, why, at),
        rooms: this.rooms,
      });
      this.view = room;
      show(this.stage, room.element);
      room.open(at, folded);
    } else show(this.stage, nothing(this.rooms));
  }

  gone(room, why, at) {
    if (this.view !== room) return;
    if (why === "reset") this.put("rooms", room.id, at);
    else if (why === "not_found") {
      room.close();
      this.view = null;
      show(this.stage, missing("It was never there, or it is not in your scope."));
    } else out("Your token holds no more. Log in with another one.");
  }

  /** How the line to the open room is; null where none is open. */
  told(state) {
    this.line.hidden = state === null;
    if (state === null || this.line.dataset.state === state) return;
    this.line.dataset.state = state;
    show(this.line, h("span.light"), STATES[state] ?? state);
  }

  find(start = "") {
    if (document.querySelector("dialog[open]")) return;
    palette({
      start,
      rooms: () => this.rooms.all,
      open: (id, sequence, edit) => this.go(id, sequence ?? null, edit),
      places: [
        ...PLACES.map(([name, label, drawing]) => ({ label, drawing, go: () => { location.hash = `#/${name}`; } })),
        { label: "Write first", drawing: "first", go: () => compose({}) },
        { label: "New room", drawing: "plus", go: () => this.rooms.create() },
        { label: "Light or dark", drawing: "moon", go: () => theme(true) },
        { label: "Keys", drawing: "key", go: () => keys() },
        { label: "API reference", drawing: "file", go: () => open("/docs", "_blank", "noopener") },
        { label: "Log out", drawing: "leave", go: () => this.leave() },
      ],
    });
  }

  key(event) {
    if (document.querySelector("dialog[open]")) return;
    const find = event.key === "k" && (event.metaKey || event.ctrlKey);
    if (find) {
      event.preventDefault();
      this.find();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.escape(event);
    else if (writing(event)) return;
    else if (event.key === "/") this.find();
    else if (event.key === "?") keys();
    else if (event.key === "f") this.rooms.field.focus();
    else if (/^[1-9]$/.test(event.key)) location.hash = `#/${PLACES[event.key - 1][0]}`;
    else if (!(this.view instanceof Room) || this.rooms.element.contains(event.target) || !this.view.key(event)) return;
    event.preventDefault();
  }

  escape(event) {
    const room = this.view instanceof Room ? this.view : null;
    if (writing(event)) event.target.blur();
    else if (room?.element.classList.contains("paneled")) room.toggle();
    else if (room && room.transcript.chosen !== null) room.transcript.choose(null);
    else if (room && matchMedia("(max-width: 760px)").matches) location.hash = "#/rooms";
  }

  async leave() {
    try {
      await leave();
    } catch (problem) {
      return void toast(`You are still logged in here. ${problem.message}`, "bad");
    }
    out();
  }

  close() {
    this.view?.close();
    this.rooms.close();
    removeEventListener("hashchange", this.moved);
    document.removeEventListener("keydown", this.pressed);
  }
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function keys() {
  const rows = [["/ or Ctrl K", "search in everything"], ["j k or ↓ ↑", "next and previous record"],
    ["g G or Home End", "first and newest record"], ["c", "copy a record’s text"], ["f", "filter the rooms"],
    ["m", "members and more"], ["1 … 9", "the places above, in their order"], ["Esc", "back"], ["?", "this"]];
  dialog("Keys", h("dl.keys", null, rows.map(([key, what]) =>
    [h("dt", null, key.split(" ").map((one) => (one.length < 6 && !["or", "…"].includes(one) ? h("kbd", null, one) : ` ${one} `))), h("dd", null, what)])));
}

function out(why = "") {
  page?.close();
  page = null;
  for (const box of document.querySelectorAll("dialog")) box.remove();
  document.title = "threadline";
  show(app, door(enter, why));
  document.getElementById("token").focus();
}

function enter(who) {
  page?.close();
  page = new Page(who);
  show(app, page.element);
  page.open();
}

addEventListener("signed-out", () => page && out("Your token holds no more. Log in with another one."));

async function begin() {
  theme();
  try {
    const who = await known();
    if (who?.kind === "controller") enter(who);
    else out();
  } catch {
    show(app, h("main.door", { id: "main" }, h("h1", null, "threadline"),
      h("p.faint", { role: "status" }, "The server does not answer. Trying again…")));
    setTimeout(begin, 2000);
  }
}

begin();
