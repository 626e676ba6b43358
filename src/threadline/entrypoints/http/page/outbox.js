// One's own words until the server has them: shown at once, sent in order, once.

import { post } from "./api.js";
import { h, icon } from "./dom.js";
import { prose } from "./prose.js";

const AGAIN = 1500;

/**
 * What was written and is not in the transcript yet. Each has an id of its own, under which it can
 * be sent again and again and is said once; the record that carries it takes its place.
 */
export class Outbox {
  constructor({ key, address, sent, changed }) {
    this.key = key;
    this.address = address;
    this.sent = sent;
    this.changed = changed;
    this.waiting = kept(key);
    this.element = h("div.pending", { "aria-label": "Not sent yet" });
    this.draw();
  }

  add(text, reply, files = []) {
    const one = { client_id: crypto.randomUUID?.() ?? random(), text, state: "sending",
      ...(files.length ? { files: files.map(({ id }) => id), names: files.map(({ name }) => name) } : {}),
      ...(reply ? { reply_to: reply.sequence, quote: reply.text.slice(0, 200) } : {}) };
    this.waiting.push(one);
    this.draw();
    this.send();
  }

  /** The record is here: by the answer to what was sent, or before it by the stream. */
  came(client_id) {
    const before = this.waiting.length;
    this.waiting = this.waiting.filter((one) => one.client_id !== client_id);
    if (this.waiting.length !== before) this.draw();
  }

  async send() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    try {
      for (;;) {
        const one = this.next();
        if (!one) break;
        const { client_id, text, reply_to, files } = one;
        const answer = await post(this.address, { text, client_id,
          ...(reply_to ? { reply_to } : {}), ...(files ? { files } : {}) });
        if (answer.record) {
          this.sent(answer.record);
          this.came(client_id);
        } else {
          // History is being imported; the words are kept and come with the stream.
          one.state = "held";
          this.draw();
        }
      }
    } catch (problem) {
      this.refused(problem);
    } finally {
      this.busy = false;
    }
  }

  /** What is to be sent next. */
  next() {
    return this.waiting.find((it) => it.state === "sending" || it.state === "waiting");
  }

  refused(problem) {
    const one = this.next();
    if (!one || problem.status === 401) return;
    const later = problem.code === "offline" || problem.status >= 500 || problem.status === 429;
    one.state = later ? "waiting" : "failed";
    one.why = problem.message;
    this.draw();
    if (later) this.timer = setTimeout(() => this.send(), AGAIN);
    else this.send();
  }

  again(one) {
    one.state = "sending";
    this.draw();
    this.send();
  }

  drop(one) {
    this.came(one.client_id);
  }

  draw() {
    keep(this.key, this.waiting);
    this.element.replaceChildren(...this.waiting.map((one) =>
      h("article.row.message.mine.unsent", { class: one.state, "data-client": one.client_id },
        h("div.body", null, h("header", null, h("span.name", null, "You"), h("span.faint", null,
          { sending: "sending…", waiting: "waits for the server…", held: "waits for the history", failed: "not sent" }[one.state])),
        one.quote && h("div.quote", { dir: "auto" }, one.quote),
        prose(one.text),
        one.names && h("ul.files", null, one.names.map((name) => h("li", null, icon("file"), h("bdi.name", null, name)))),
        one.state === "failed" && h("footer", { role: "alert" }, h("span.bad", null, one.why),
          h("button.small", { type: "button", onclick: () => this.again(one) }, "Send again"),
          h("button.small", { type: "button", onclick: () => this.drop(one) }, "Discard"))))));
    this.changed();
  }

  close() {
    clearTimeout(this.timer);
  }
}

/** Words survive a page that is loaded again in the same tab. */
function kept(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "[]").map((one) => ({ ...one, state: "waiting" }));
  } catch {
    return [];
  }
}

function keep(key, waiting) {
  try {
    if (waiting.length) sessionStorage.setItem(key, JSON.stringify(waiting));
    else sessionStorage.removeItem(key);
  } catch {
    // Then they live as long as the page does.
  }
}

/** For pages that are not served securely, where browsers have no `randomUUID`. */
const random = () => [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
