// At the side of a room: who speaks, who reads and how far, deliveries, links, the facts.

import { path, put, read, remove } from "./api.js";
import { by, decide, decided, explained, mark, scope, switches } from "./consent.js";
import { deliveryItem } from "./deliveries.js";
import { ask, sure } from "./dialogs.js";
import { h, icon, named, tool } from "./dom.js";
import { ago, count, exact, number, span, when } from "./format.js";

const MANY = 100;

export class Panel {
  constructor(room) {
    this.room = room;
    this.members = [];
    this.sections = Object.fromEntries(
      ["speakers", "members", "consent", "deliveries", "links", "facts"].map((name) => [name, h("section", { class: name })]));
    this.element = h("aside.panel", { "aria-label": "About this room" },
      h("header.bar.narrow", null, h("h2", null, "About this room"),
        tool("close", "Close", () => room.toggle())),
      Object.values(this.sections));
  }

  async load(state) {
    const { root, id } = this.room;
    const none = (problem) => {
      if (problem.status === 404) return null;
      throw problem;
    };
    const own = state.kind !== "dm" && !state.parent;
    const [members, binding, group, deliveries, links, consents] = await Promise.all([
      read(path(root, "members", { limit: MANY })),
      state.bound ? read(path(root, "binding")).catch(none) : null,
      state.grouped ? read(path(root, "group")).catch(none) : null,
      read(path("/v1/deliveries", { conversation: id, limit: 8 })),
      read(path(root, "links", { limit: 50 })).catch(none),
      own && state.ref.provider !== "internal" ? decided({ conversation: id }) : null,
    ]);
    Object.assign(this, { members: members.members, further: members.next, binding, group,
      deliveries: deliveries.deliveries, links: links?.links ?? [], consents });
  }

  /** Draw what is different from what is there. */
  draw() {
    const parts = { speakers: this.speakers(), members: this.readers(), consent: this.consent(), deliveries: this.sayings(),
      links: this.invitations(), facts: this.facts() };
    for (const [name, children] of Object.entries(parts)) {
      const made = h("section", { class: name }, children);
      const old = this.sections[name];
      if (old.isEqualNode(made)) continue;
      // What had the focus has it again, by its place among what can have it.
      const at = [...old.querySelectorAll("a, button")].indexOf(document.activeElement);
      old.replaceWith(made);
      this.sections[name] = made;
      if (at >= 0) [...made.querySelectorAll("a, button")][at]?.focus();
    }
  }

  heading(title, many, ...tools) {
    return h("header", null, h("h3", null, title, many ? h("small", null, ` ${number(many)}`) : null), tools);
  }

  speakers() {
    const { binding, group } = this;
    const rows = [];
    if (binding) rows.push(h("li", null, h("span.avatar.on", null, icon("reply")),
      h("span.who", null, named(binding.session_id, "bdi.name"),
        h("small", null, `bound, generation ${binding.generation}`,
          binding.expires_at ? ` · until ${when(binding.expires_at)}` : "")),
      tool("close", `Unbind ${binding.session_id}`, () => this.unbind(binding))));
    for (const seat of group?.participants ?? [])
      rows.push(h("li", null, h("span.avatar", null, "@"),
        h("span.who", null, h("span", null, h("bdi.name", null, seat.handle),
          seat.handle === group.default_handle && h("span.badge", null, "default"),
          seat.handle === group.last_addressed_handle && h("span.badge.faint", null, "last addressed")),
        h("small", null, named(seat.session_id), seat.public ? " · may speak" : " · silent",
          seat.aliases.length ? ` · ${seat.aliases.join(", ")}` : ""))));
    return [this.heading("Who speaks", 0, tool("plus", "Let a session speak here", () => this.bind())),
      group && h("p.faint", null, group.mode === "open" ? "Open: an unaddressed message has a speaker."
        : "On mention: only who is addressed speaks."),
      rows.length ? h("ul.people", null, rows)
        : h("p.empty", null, "Nobody. What is said is stored and read, and wakes no one.")];
  }

  readers() {
    const active = this.members.filter((one) => one.active);
    return [this.heading("Who reads", this.room.state?.members, tool("plus", "Add a reader", () => this.join())),
      active.length ? h("ul.people", null, active.map((one) => this.member(one)))
        : h("p.empty", null, "No session reads here."),
      this.further && h("p.faint", null, `The first ${MANY} are shown.`)];
  }

  member(one) {
    const head = Math.max(one.head, this.room.model.head);
    const lag = Math.max(0, head - one.cursor);
    const whole = Math.max(1, head - one.visible_from + 1);
    const policy = { all: "reads all", since_join: "since joining", last_n: `last ${one.n}` }[one.policy];
    const bar = h("progress", { max: whole, value: Math.max(0, whole - lag),
      "aria-label": `${one.session_id} read up to ${one.cursor} of ${head}` });
    return h("li", { title: `Cursor ${one.cursor}, head ${head}, sees from ${one.visible_from}; joined ${exact(one.joined_at)}` },
      h("span.lag", { class: lag === 0 ? "even" : lag > 50 ? "far" : "behind" }, lag ? `−${number(lag)}` : icon("check")),
      h("span.who", null, named(one.session_id, "bdi.name"), bar,
        h("small", null, policy, one.override ? " (override)" : "", " · ", Object.keys(one.grants).join(", ") || "no grant",
          one.handles.length ? ` · @${one.handles.join(" @")}` : "", lag ? ` · ${count(lag, "record")} behind` : "")),
      tool("close", `Remove ${one.session_id}`, () => this.leave(one)));
  }

  /** Whether sessions may write first here; a person decides for a direct conversation. */
  consent() {
    const { state } = this.room;
    const heading = this.heading("Writing first", 0);
    if (!state || state.ref.provider === "internal") return [heading, h("p.empty", null, "Sessions talk to each other here.")];
    if (state.parent) return [heading, h("p.empty", null, "As ", h("a", { href: `#/rooms/${encodeURIComponent(state.parent)}` }, "its room"), " has it.")];
    if (!this.consents) {
      const person = [...this.room.model.records.values()].find((one) => one.person_id)?.person_id;
      return [heading, h("p.empty", null, "The person decides",
        person ? [": ", h("a", { href: `#/people/${encodeURIComponent(person)}` }, "what they said"), "."] : ".")];
    }
    const turn = (about) => (to) => decide({ conversation: this.room.id }, to, { about, name: state.title || state.ref.conversation_id,
      done: () => this.room.refresh() });
    const whole = this.consents.find((one) => !one.about);
    const rows = [whole ?? { about: "", state: null }, ...this.consents.filter((one) => one.about)];
    return [heading, h("ul.switches", null, rows.map((row) => h("li", null,
      h("span", null, mark(row.state), row.about && [" ", h("small", null, scope(row.about))], h("span.acts", null, switches(row.state, turn(row.about)))),
      row.by && h("small", null, by(row), row.why && [": ", named(row.why)])))), explained()];
  }

  sayings() {
    return [this.heading("Deliveries", 0, h("a.quiet", { href: "#/deliveries" }, "All")),
      this.deliveries?.length
        ? h("ul.deliveries", null, this.deliveries.map((one) => deliveryItem(one, () => this.room.refresh())))
        : h("p.empty", null, "Nothing was published here yet.")];
  }

  invitations() {
    const open = this.links?.filter((one) => !one.revoked_at && Date.parse(one.expires_at) > Date.now()) ?? [];
    return [this.heading("Room links", open.length, tool("plus", "Make a link", () => this.room.share())),
      open.length ? h("ul.people", null, open.map((one) => h("li", null,
        h("span.avatar", null, icon("link")),
        h("span.who", null, named(one.name || "Link", "bdi.name"),
          h("small", null, one.policy === "all" ? "reads everything" : one.policy === "last_n"
            ? `reads the last ${number(one.n)}` : "reads from joining on", ` · until ${when(one.expires_at)}`)),
        tool("close", `Revoke ${one.name || "this link"}`, () => this.revoke(one)))))
        : h("p.empty", null, "No link leads here.")];
  }

  facts() {
    const { state } = this.room;
    if (!state) return [];
    const history = { complete: "complete", partial: `partial${state.reason ? `: ${state.reason}` : ""}`,
      none: "not imported" }[state.history];
    const rows = [
      ["Address", h("code", null, named(state.text))],
      ["Records", `${number(state.earliest_sequence)} to ${number(state.head)}`],
      ["History", history],
      ["Import", state.hydration.replace("_", " ")],
      state.held && ["On hold", count(state.held, "message")],
      ["Keeps", [state.max_retained_entries && count(state.max_retained_entries, "record"),
        state.max_age && span(state.max_age)].filter(Boolean).join(", ") || "everything"],
      state.parent && ["Thread of", h("a", { href: `#/rooms/${encodeURIComponent(state.parent)}` }, "its room")],
      state.moved_to && ["Moved to", h("a", { href: `#/rooms/${encodeURIComponent(state.moved_to)}` }, "another room")],
      state.kind_mismatches && ["Other kinds", `${count(state.kind_mismatches, "event")} named another kind`],
      ["Known since", h("time", { datetime: state.created_at, title: exact(state.created_at) }, ago(state.created_at))],
    ].filter(Boolean);
    return [this.heading("Facts", 0), h("dl", null, rows.map(([name, value]) =>
      [h("dt", null, name), h("dd", null, value)]))];
  }

  async done(work) {
    if (await work) await this.room.refresh();
  }

  join() {
    const { root } = this.room;
    return this.done(ask({ title: "Add a reader", action: "Add",
      about: "A session that reads keeps its own place; it does not speak by that.",
      fields: [
        { name: "session", label: "Session", required: true, placeholder: "atlas" },
        { name: "policy", label: "Reads", half: true, choices: [["all", "everything"],
          ["since_join", "from now on"], ["last_n", "the last …"]] },
        { name: "n", label: "How many", type: "number", min: 1, half: true, placeholder: "50",
          note: "For “the last …”." }],
      submit: ({ session, policy, n }) => put(path(root, "members", session),
        { policy, ...(policy === "last_n" ? { n: Number(n) || 50 } : {}) }) }));
  }

  bind() {
    const { root } = this.room;
    return this.done(ask({ title: "Let a session speak", action: "Save",
      about: "Bound, the whole room is the session’s. With a handle it shares the room with others.",
      fields: [
        { name: "session", label: "Session", required: true, placeholder: "atlas" },
        { name: "handle", label: "Handle", placeholder: "leave empty to bind the room",
          note: "People address it as @handle." }],
      submit: async ({ session, handle }) => {
        if (!handle) return put(path(root, "binding"), { session_id: session });
        await put(path(root, "group"), {});
        return put(path(root, "group", "participants", handle), { session_id: session, public: true });
      } }));
  }

  unbind(binding) {
    return this.done(sure("End the binding?", `${binding.session_id} no longer speaks here. What it said stays.`,
      "Unbind", () => remove(path(this.room.root, "binding"))));
  }

  leave(one) {
    return this.done(sure("Remove this reader?", `${one.session_id} no longer reads here. Its place is kept for when it comes back.`,
      "Remove", () => remove(path(this.room.root, "members", one.session_id, { evict: true }))));
  }

  revoke(one) {
    return this.done(sure("Revoke this link?", "Whoever joined by it is out within a second. What they said stays.",
      "Revoke", () => remove(path("/v1/links", one.id))));
  }
}
