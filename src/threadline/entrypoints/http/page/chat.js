// The web chat: a person, a name they chose, one room.

import { pass, path, post, read, remove } from "./api.js";
import { h, icon, named, remember, remembered, show, theme, toast, tool, writing } from "./dom.js";
import { number, size } from "./format.js";
import { Model } from "./model.js";
import { Outbox } from "./outbox.js";
import { line } from "./prose.js";
import { author } from "./row.js";
import { Live } from "./stream.js";
import { Transcript } from "./transcript.js";

const LONGEST = 8000;
const MOST_FILES = 10;
const GONE = [401, 404, 410];
const NOWHERE = "This link does not lead anywhere any more. Ask for a new one.";
const STATES = { live: "Connected", waiting: "Reconnecting…" };

const app = document.getElementById("app");
// The link is a secret: it leaves the address as soon as it was exchanged for a cookie.
const link = /^\/chat\/([^/]+)$/.exec(location.pathname)?.[1];

/** A place of one guest: a browser has a guest for each link it came in by, and each tab its own. */
const at = (guest, ...parts) => {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  return path("/chat", ...parts, { ...query, guest });
};

class Chat {
  constructor(me) {
    this.me = me;
    this.at = (...parts) => at(me.guest, ...parts);
    this.unread = 0;
    this.reply = null;
    this.mine = (record) => record.actor.id === me.actor_id;
    this.model = new Model((after, limit) => read(this.at("messages", { after, limit, before: after + limit + 1, view: "messages" })));
    this.outbox = new Outbox({
      key: `threadline.unsent.${me.conversation}.${me.actor_id}`,
      address: this.at("messages"),
      sent: (record) => record && this.model.live(record),
      changed: () => this.transcript?.list.soon(),
    });
    this.start = h("div.start");
    this.transcript = new Transcript({
      model: this.model, label: "Conversation", start: this.start, tail: this.outbox.element,
      view: { guest: true, file: (sequence, number) => this.at("messages", `${sequence}`, "attachments", `${number}`),
        mine: this.mine, reply: me.writes ? (record) => this.answer(record) : null },
    });
    this.model.addEventListener("live", ({ detail }) => this.came(detail));
    this.line = h("span.line", { role: "status" });
    this.element = h("div.page", null,
      h("header.bar", null,
        h("img", { src: "/assets/mark.svg", alt: "", width: 26, height: 26 }),
        h("div.heading", null, h("h1", null, named(me.title || "Chat")),
          h("p.faint", null, "You are ", named(me.name))),
        this.line,
        tool("moon", "Light or dark", () => theme(true)),
        tool("leave", "Leave this chat", () => this.leave())),
      h("main", { id: "main", tabindex: -1 }, this.transcript.element),
      this.composer());
    this.pressed = (event) => this.key(event);
    this.back = () => document.hidden || this.looked();
    document.addEventListener("keydown", this.pressed);
    document.addEventListener("visibilitychange", this.back);
  }

  composer() {
    if (!this.me.writes) return h("p.composer.faint", null, "You can read here; writing is not possible in this room.");
    this.field = h("textarea", { rows: 1, maxlength: LONGEST, "aria-label": "Message", placeholder: "Write a message",
      dir: "auto", oninput: () => this.fit(), onpaste: (event) => this.pasted(event), onkeydown: (event) => this.typed(event) });
    this.quote = h("div.answering", { hidden: true });
    this.files = [];
    this.given = h("ul.files.given", { "aria-label": "Files to send", hidden: true });
    const chosen = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files",
      onchange: () => this.give([...chosen.files]).finally(() => { chosen.value = ""; }) });
    const go = h("button.primary.send", { type: "submit", "aria-label": "Send" }, icon("send"));
    return h("form.composer", { onsubmit: (event) => this.submit(event) }, this.quote, this.given, chosen,
      h("div.writing", null, tool("clip", "Send a file", () => chosen.click()), this.field, go),
      h("p.faint.keys", null, h("kbd", null, "Enter"), " sends, ", h("kbd", null, "Shift Enter"), " begins a new line"));
  }

  async open() {
    show(app, this.element);
    document.title = this.me.title || "Chat";
    const first = await read(this.at("messages", { limit: 1 }));
    const from = this.me.policy === "all"
      ? (first.history === "partial" ? "What was said before is not all here." : "The beginning.")
      : this.me.policy === "last_n" ? `You read the last ${number(this.me.n)} from when you joined.`
        : "You read what is said since you joined.";
    show(this.start, h("p", null, from));
    this.model.bounds(first.earliest, first.head);
    this.transcript.end();
    (this.field ?? this.transcript.scroller).focus();
    this.live = new Live({
      address: (after) => this.at("stream", { after }),
      after: first.head,
      probe: () => read(this.at("me"), { quiet: true }),
      on: {
        record: (record) => this.model.live(record),
        reset: () => begin(),
        end: () => over(),
        state: (state) => this.told(state),
      },
    });
    this.outbox.send();
  }

  came(record) {
    if (this.mine(record)) this.outbox.came(clientOf(record));
    else if (document.hidden && record.event === "message") {
      this.unread += 1;
      document.title = `(${this.unread}) ${this.me.title || "Chat"}`;
    }
  }

  looked() {
    this.unread = 0;
    document.title = this.me.title || "Chat";
    this.transcript.list.soon();
  }

  told(state) {
    if (this.line.dataset.state === state) return;
    this.line.dataset.state = state;
    show(this.line, h("span.light"), h("span", null, STATES[state] ?? state));
    if (state === "live") this.outbox.send();
  }

  answer(record) {
    this.reply = record;
    this.quote.hidden = !record;
    if (record) {
      show(this.quote, icon("reply"), h("span", null, named(this.mine(record) ? "You" : author(record), "bdi.name"), " ",
        h("span", { dir: "auto" }, line(record.text))), tool("close", "Do not reply", () => this.answer(null)));
      this.field.focus();
    }
    this.transcript.list.soon();
  }

  /** Files go to the server as soon as they are chosen, and are said with the next message. */
  async give(files) {
    for (const file of files.slice(0, MOST_FILES - this.files.length)) {
      this.line.title = `Sending ${file.name}`;
      try {
        this.files.push(await post(this.at("files", { name: file.name }), file));
      } catch (problem) {
        toast(problem.message, "bad");
      }
      this.line.title = "";
      this.drawn();
    }
    this.field.focus();
  }

  pasted(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.give(files);
  }

  drawn() {
    this.given.hidden = !this.files.length;
    show(this.given, this.files.map((file) => h("li", null, icon("file"), h("bdi.name", null, file.name),
      h("span.faint", null, size(file.size)),
      tool("close", `Do not send ${file.name}`, () => {
        this.files = this.files.filter((one) => one !== file);
        this.drawn();
      }))));
    this.transcript.list.soon();
  }

  submit(event) {
    event?.preventDefault();
    const text = this.field.value.replace(/\s+$/, "");
    if (!text.trim() && !this.files.length) return;
    this.outbox.add(text, this.reply, this.files);
    this.files = [];
    this.drawn();
    this.field.value = "";
    this.answer(null);
    this.fit();
    this.transcript.end();
    this.field.focus();
  }

  typed(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) this.submit(event);
    else if (event.key === "Escape" && this.reply) this.answer(null);
    else if (event.key === "Escape") this.transcript.scroller.focus();
    else if (event.key === "ArrowUp" && !this.field.value) this.transcript.step(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** As high as what is written, up to a third of the window. */
  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, innerHeight / 3)}px`;
    this.transcript.list.soon();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || writing(event)) return;
    if (event.key === "/" || event.key === "Escape" || event.key === "i") {
      this.transcript.choose(null);
      this.field?.focus();
      event.preventDefault();
    } else this.transcript.key(event);
  }

  async leave() {
    try {
      await remove(this.at("me"), { quiet: true });
    } catch (problem) {
      // Whoever is told that they left believes that nobody speaks under their name any more.
      if (problem.status !== 401) return void toast(`You are still here. ${problem.message}`, "bad");
    }
    over("You left. To come back you need the link again.");
  }

  close() {
    this.live?.close();
    this.outbox.close();
    this.transcript.close();
    document.removeEventListener("keydown", this.pressed);
    document.removeEventListener("visibilitychange", this.back);
  }
}

/** Under which of our ids a record was sent. */
const clientOf = (record) => record.message_id?.slice(record.actor.id.length + 1);

let chat = null;

function enter(me) {
  pass.csrf = me.csrf;
  remember("guest", me.guest);
  history.replaceState(null, "", at(me.guest));
  chat?.close();
  chat = new Chat(me);
  chat.open().catch((problem) => {
    if (problem.status === 401) over();
    else toast(problem.message, "bad");
  });
}

function door(title, before) {
  const said = h("p.bad", { role: "alert", hidden: true });
  const field = h("input", { id: "name", name: "name", required: true, maxlength: 80, autocomplete: "nickname",
    placeholder: "Ada" });
  const go = h("button.primary", { type: "submit" }, "Join");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    said.hidden = true;
    try {
      enter(await post(`/chat/${link}`, { name: field.value.trim() }, { quiet: true }));
    } catch (problem) {
      const { free } = problem.facts;
      said.textContent = GONE.includes(problem.status) ? NOWHERE
        : free ? `Somebody here is called ${field.value.trim()}. You could be ${free}.` : problem.message;
      if (free) field.value = free;
      said.hidden = false;
      field.focus();
    } finally {
      go.disabled = false;
    }
  } }, h("label", { for: "name" }, "Your name"), field,
  h("small.faint", null, "Everybody in the room sees it, marked as not checked."), said, go);
  show(app, h("main.door", { id: "main" },
    h("img", { src: "/assets/mark.svg", alt: "", width: 44, height: 44 }),
    h("h1", null, title ? ["You are invited to ", named(title)] : "You are invited to a chat"),
    form,
    before && h("button", { type: "button", onclick: () => enter(before) }, h("span", null, "Go on as ",
      named(before.name)))));
  field.focus();
}

function over(why = "Your place in this chat has ended. Ask for a new link to come back.") {
  chat?.close();
  chat = null;
  document.title = "Chat";
  show(app, h("main.door", { id: "main", tabindex: -1 }, h("img", { src: "/assets/mark.svg", alt: "", width: 44, height: 44 }),
    h("h1", null, "The chat is closed"), h("p.faint", { role: "status" }, why)));
}

addEventListener("signed-out", () => chat && over());

/** The guest this tab is: as its address says, else whoever came in last, else the only one there is. */
async function mine() {
  const named = chat?.me.guest ?? new URLSearchParams(location.search).get("guest");
  const ask = (guest) => read(at(guest, "me"), { quiet: true });
  if (named) return ask(named);
  return ask(remembered("guest")).catch((problem) => (problem.status === 401 ? ask(null) : Promise.reject(problem)));
}

async function begin() {
  theme();
  try {
    if (link && !chat) {
      const { title, guest } = await read(path("/chat", link, "door"), { quiet: true });
      door(title, await read(at(guest, "me"), { quiet: true }).catch(() => null));
    } else enter(await mine());
  } catch (problem) {
    if (problem.code === "offline") {
      show(app, h("main.door", { id: "main" }, h("h1", null, "The server does not answer"),
        h("p.faint", { role: "status" }, "Trying again…")));
      setTimeout(begin, 2000);
    } else if (link && !chat) over(GONE.includes(problem.status) ? NOWHERE : problem.message);
    else over("You need a link to join a room. Whoever runs it can give you one.");
  }
}

begin();
