// A transcript on the screen: its list, its keys, and where one is in it.

import { announce, h, icon, toast } from "./dom.js";
import { List } from "./list.js";
import { line } from "./prose.js";
import { author, row } from "./row.js";

const GUESS = 58;

/** A view on a model. `tail` is an element behind the newest row, `start` one before the first. */
export class Transcript {
  constructor({ model, view, start = null, tail = null, label }) {
    this.model = model;
    this.chosen = null;
    this.unseen = 0;
    this.view = {
      go: (sequence) => this.go(sequence),
      copy: (record) => this.copy(record),
      link: (sequence) => `#${sequence}`,
      ...view,
    };
    this.scroller = h("div.scroller", { tabindex: 0, role: "feed", "aria-label": label,
      onkeydown: (event) => this.key(event), onclick: (event) => this.clicked(event) });
    this.list = new List({
      scroller: this.scroller,
      guess: GUESS,
      row: (sequence) => this.row(sequence),
      seen: (first, last) => this.seen(first, last),
    });
    this.scroller.append(...[start, this.list.sizer, tail].filter(Boolean));
    this.pill = h("button.pill", { type: "button", hidden: true, onclick: () => this.end() });
    this.element = h("div.transcript", null, this.scroller, this.pill);
    this.listeners = {
      bounds: () => this.list.bounds(model.earliest, model.head),
      records: ({ detail }) => this.changed(detail),
      live: ({ detail }) => this.came(detail),
      problem: ({ detail }) => this.failed(detail),
    };
    for (const [kind, work] of Object.entries(this.listeners)) model.addEventListener(kind, work);
  }

  row(sequence) {
    const made = row(this.model, sequence, this.view);
    if (sequence === this.chosen) made.classList.add("chosen");
    return made;
  }

  changed(sequences) {
    // The one behind may stand under the same name now, or under the same day.
    const numbers = new Set(sequences);
    for (const sequence of sequences) numbers.add(sequence + 1);
    this.list.renew(numbers);
    for (const sequence of sequences) {
      const record = this.model.at(sequence);
      if (record?.message_id) this.answered(record);
    }
  }

  /** Quotes of a record that came later than they did. */
  answered(record) {
    for (const [number] of this.list.mounted)
      if (this.model.at(number)?.reply_to === record.message_id) this.list.renew([number]);
  }

  came(record) {
    const mine = this.view.mine?.(record);
    if (record.event === "delete") announce("A message was deleted.");
    if (record.event === "message" && !mine) {
      announce(`${author(record)}: ${line(record.text, 200)}`);
      if (!this.list.atEnd || document.hidden) this.unseen += 1;
    }
    if (mine) this.end();
    this.marks();
  }

  seen(first, last) {
    const spare = 40;
    this.model.need(Math.max(this.model.earliest, first - spare),
      Math.min(this.model.head, last + spare));
    if (this.list.atEnd && !document.hidden) this.unseen = 0;
    this.marks();
  }

  marks() {
    const away = !this.list.atEnd && this.model.length > 0;
    if (this.pill.hidden === away) this.pill.hidden = !away;
    if (!away) return;
    const label = this.unseen
      ? `${this.unseen} new message${this.unseen === 1 ? "" : "s"}` : "To the newest";
    if (this.label === label) return;
    this.label = label;
    this.pill.classList.toggle("new", this.unseen > 0);
    this.pill.replaceChildren(icon("down"), document.createTextNode(label));
  }

  failed(problem) {
    if (problem.code === "offline") setTimeout(() => this.list.soon(), 1500);
    else if (problem.status !== 401) toast(problem.message, "bad");
  }

  /** Choose a row and bring it into view. */
  go(sequence, middle = true) {
    if (this.model.length <= 0) return;
    const at = Math.min(Math.max(sequence, this.model.earliest), this.model.head);
    this.choose(at);
    this.list.reveal(at, middle)?.focus({ preventScroll: true });
  }

  choose(sequence) {
    this.list.mounted.get(this.chosen)?.classList.remove("chosen");
    this.chosen = sequence;
    this.list.mounted.get(sequence)?.classList.add("chosen");
    this.view.chosen?.(sequence);
  }

  end() {
    this.unseen = 0;
    this.choose(null);
    this.list.end();
    this.marks();
  }

  clicked(event) {
    const at = event.target.closest?.(".row");
    if (at && !event.target.closest("a, button, pre") && getSelection().isCollapsed)
      this.choose(Number(at.dataset.number));
  }

  /** The next or the one before, past those that have no row of their own. */
  step(by) {
    const view = this.scroller.getBoundingClientRect();
    const inView = [...this.list.mounted].find(([, element]) =>
      by < 0 ? element.getBoundingClientRect().bottom >= view.bottom - 4
        : element.getBoundingClientRect().bottom > view.top + 4);
    let at = this.chosen === null ? (inView?.[0] ?? this.model.head) : this.chosen + by;
    while (at > this.model.earliest && at < this.model.head
      && this.list.mounted.get(at)?.classList.contains("hidden")) at += by;
    this.go(at, false);
  }

  copy(record) {
    navigator.clipboard.writeText(record.text).then(() => toast("Copied."),
      () => toast("This browser does not let us copy.", "bad"));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("button, a, pre") && event.key === "Enter") return;
    const record = this.model.at(this.chosen);
    const acts = {
      j: () => this.step(1), ArrowDown: () => this.step(1),
      k: () => this.step(-1), ArrowUp: () => this.step(-1),
      Home: () => this.go(this.model.earliest, false), g: () => this.go(this.model.earliest, false),
      End: () => { this.end(); this.scroller.focus(); }, G: () => { this.end(); this.scroller.focus(); },
      c: () => record && this.copy(record),
      r: () => record && !record.deleted && this.view.reply?.(record),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  close() {
    for (const [kind, work] of Object.entries(this.listeners))
      this.model.removeEventListener(kind, work);
    this.list.close();
  }
}
