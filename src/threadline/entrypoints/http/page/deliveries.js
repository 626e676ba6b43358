// What sessions said and what became of it, with what can be done where it did not go well.

import { path, post, read } from "./api.js";
import { dialog, paged, sure, table } from "./dialogs.js";
import { h, named, polling, toast } from "./dom.js";
import { ago, exact, when } from "./format.js";

const ACTS = {
  pending: [["cancel", "Take back", "It is not sent."]],
  uncertain: [
    ["confirm", "It arrived", "It is written into the transcript as said."],
    ["resend", "Send again", "It goes out once more, at the end of what waits, and is marked. People may see it twice."],
    ["drop", "Drop", "It is not sent again and not written into the transcript."],
  ],
};

const WORDS = {
  pending: "Waits for its turn.",
  sending: "Is on its way.",
  uncertain: "Nobody knows whether it arrived.",
  expired: "Was not sent in time.",
  cancelled: "Was taken back.",
};

function acts(delivery, done) {
  return (ACTS[delivery.state] ?? []).map(([act, label, about]) =>
    h("button.small", { type: "button", onclick: async () => {
      const path_ = path("/v1/deliveries", delivery.id, act);
      const asked = delivery.words ? `“${delivery.words.slice(0, 300)}” ${about}` : about;
      if (await sure(`${label}?`, asked, label, () => post(path_, {}))) {
        toast("Done.");
        done();
      }
    } }, label));
}

export const state = (delivery) => h("span.state", { class: delivery.state }, delivery.state);

/** Every step it took, for whoever wants to know why. */
async function steps(delivery) {
  const place = h("div.content", null, words(delivery), h("p.faint", null, "…"));
  dialog(`What ${delivery.session_id} said`, place).classList.add("wide");
  try {
    const found = await read(path("/v1/deliveries", delivery.id, "steps"));
    place.replaceChildren(words(delivery) ?? "", table(["State", "When", "Note"], found.steps.map((one) => [
      state(one),
      h("time", { datetime: one.at, title: exact(one.at) }, when(one.at)),
      named(one.note)]), "It took no step yet."));
  } catch (problem) {
    place.replaceChildren(h("p.bad", { role: "alert" }, problem.message));
  }
}

/** Why, in a sentence or less. */
export function why(delivery) {
  const parts = [delivery.failure?.replaceAll("_", " "), delivery.reason].filter(Boolean);
  return parts.join(": ") || WORDS[delivery.state] || "";
}

function place(delivery) {
  const room = `#/rooms/${encodeURIComponent(delivery.conversation)}`;
  if (delivery.sequence === null) return h("a", { href: room }, "room");
  return h("a", { href: `${room}/${delivery.sequence}` }, `#${delivery.sequence}`);
}

/** What is to be said; once it is, the transcript has it. */
const words = (delivery) => (delivery.words ? h("p.saying", { dir: "auto" }, delivery.words) : null);

/** A delivery in a narrow list. */
export const deliveryItem = (one, done) => h("li", null,
  h("span", null, state(one), " ", named(one.session_id, "bdi.name"), " ", one.sequence === null ? null : place(one),
    h("time", { datetime: one.created_at, title: exact(one.created_at) }, ago(one.created_at))),
  words(one), why(one) ? h("small", null, why(one)) : null,
  acts(one, done));

export class Deliveries {
  constructor() {
    const draw = (items) => {
      const wanted = this.filter.value;
      const seen = items.filter((one) => !wanted || (wanted === "open"
        ? ["pending", "sending", "uncertain"].includes(one.state) : one.state === wanted));
      return table(["State", "Session", "Where", "Said", "Attempts", "Why", ""], seen.map((one) => [
        state(one), named(one.session_id),
        h("span", null, h("bdi", null, one.ref.conversation_id), " ", place(one), words(one)),
        h("time", { datetime: one.created_at, title: exact(one.created_at) }, ago(one.created_at)),
        String(one.attempts), why(one), h("span.acts", null, acts(one, () => this.list.again()),
          h("button.small", { type: "button", onclick: () => steps(one) }, "Steps"))]),
      items.length ? "None of those that are loaded." : "Nothing was published yet. What sessions say stands here, with its end.");
    };
    this.filter = h("select", { "aria-label": "State", onchange: () => this.list.load() },
      [["", "All states"], ["open", "Open"], ["delivered", "Delivered"], ["failed", "Failed"],
        ["uncertain", "Uncertain"], ["expired", "Expired"], ["cancelled", "Cancelled"]]
        .map(([value, label]) => h("option", { value }, label)));
    this.list = paged(async (after) => {
      const page = await read(path("/v1/deliveries", { limit: 100, after,
        state: this.filter.value === "open" ? "" : this.filter.value }));
      return { items: page.deliveries, next: page.next };
    }, draw);
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "Deliveries"), this.filter), this.list.element);
    // Whoever is about to press a button does not want it to move.
    this.poll = polling(() => this.element.contains(document.activeElement) || this.list.again(), 5);
  }

  open() {
    return this.list.load();
  }

  close() {
    this.poll.stop();
  }
}
