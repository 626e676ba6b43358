// A transcript as far as it was loaded: records by sequence, and what later records say of them.

export const CHUNK = 100;
const KEPT = 120;
const REVISIONS = new Set(["edit", "delete", "reaction"]);

/**
 * Records are loaded in aligned chunks as somebody looks at them. The server folds the edits of a
 * page; what arrives live is folded here, where the page did not know it yet.
 */
export class Model extends EventTarget {
  /** `load(after, limit)` gives a page of a transcript; `earliest` and `head` are its ends. */
  constructor(load) {
    super();
    this.load = load;
    this.records = new Map();
    this.ids = new Map();
    this.about = new Map();
    this.chunks = new Map();
    this.waiting = [];
    this.running = 0;
    this.earliest = 1;
    this.head = 0;
  }

  get length() {
    return this.head - this.earliest + 1;
  }

  at(sequence) {
    return this.records.get(sequence);
  }

  /** The record with a message id, where it was loaded. */
  named(id, space = "") {
    return this.records.get(this.ids.get(`${space}\n${id}`));
  }

  /** Whether there is nothing to wait for at a sequence: its surroundings are here, it is not. */
  without(sequence) {
    return !this.records.has(sequence) && this.chunks.get(chunkOf(sequence)) === "loaded";
  }

  /** The ends as the server says them. */
  bounds(earliest, head) {
    const changed = earliest !== this.earliest || head > this.head;
    if (earliest > this.earliest)
      for (const sequence of this.records.keys())
        if (sequence < earliest) this.records.delete(sequence);
    this.earliest = earliest;
    this.head = Math.max(this.head, head);
    if (changed) this.tell("bounds");
  }

  /** Make sure that these are loaded, the nearest first. */
  need(first, last) {
    const wanted = [];
    for (let at = chunkOf(first); at <= chunkOf(last); at += 1)
      if (!this.chunks.has(at)) wanted.push(at);
    // What was asked for before and is no longer looked at may wait for ever.
    this.waiting = wanted;
    this.pump();
  }

  pump() {
    while (this.running < 2 && this.waiting.length) {
      const chunk = this.waiting.shift();
      this.chunks.set(chunk, "coming");
      this.running += 1;
      this.fetch(chunk).finally(() => {
        this.running -= 1;
        this.pump();
      });
    }
  }

  async fetch(chunk) {
    try {
      const page = await this.load(chunk * CHUNK - 1, CHUNK);
      this.chunks.set(chunk, "loaded");
      this.page(page, chunk);
    } catch (problem) {
      this.chunks.delete(chunk);
      this.tell("problem", problem);
    }
  }

  page(page, chunk) {
    const folds = new Map((page.messages ?? []).map((one) => [one.record.sequence, one]));
    const changed = [];
    for (const record of page.records) {
      if (chunkOf(record.sequence) !== chunk) continue;
      changed.push(...this.keep(record, folds.get(record.sequence), page.head));
    }
    this.bounds(page.earliest, page.head);
    this.forget(chunk);
    this.tell("records", changed);
  }

  /** Only so much is kept; what is far from where somebody looks is loaded again. */
  forget(near) {
    if (this.chunks.size <= KEPT) return;
    const far = [...this.chunks.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    for (const chunk of far.slice(0, this.chunks.size - KEPT)) {
      if (this.chunks.get(chunk) !== "loaded") continue;
      this.chunks.delete(chunk);
      for (let at = chunk * CHUNK; at < (chunk + 1) * CHUNK; at += 1) this.records.delete(at);
    }
  }

  keep(record, fold, head) {
    const { sequence } = record;
    this.records.set(sequence, {
      ...record,
      text: fold && !fold.deleted ? fold.record.text : record.text,
      revision: fold?.revision ?? 0,
      deleted: (fold?.deleted ?? record.blanked) && record.event === "message",
      folded: fold ? head : -Infinity,
    });
    if (record.message_id) this.ids.set(`${record.id_space}\n${record.message_id}`, sequence);
    return [sequence, ...this.revise(record), ...this.revised(sequence)];
  }

  /** A record about another one: remembered, and applied where that one is here. */
  revise(record) {
    if (!REVISIONS.has(record.event) || !record.revises || record.refused) return [];
    const key = `${record.id_space}\n${record.revises}`;
    const known = this.about.get(key) ?? new Map();
    this.about.set(key, known.set(record.sequence, record));
    const target = this.ids.get(key);
    return target === undefined ? [] : this.revised(target);
  }

  revised(sequence) {
    const target = this.records.get(sequence);
    if (!target?.message_id) return [];
    const later = this.about.get(`${target.id_space}\n${target.message_id}`);
    if (!later) return [];
    target.reactions = new Map();
    for (const record of [...later.values()].sort((a, b) => a.sequence - b.sequence)) {
      const who = record.actor.name || record.actor.id;
      if (record.event === "reaction" && record.text)
        target.reactions.set(record.text, [...(target.reactions.get(record.text) ?? []), who]);
      if (record.sequence <= target.folded) continue;
      if (record.event === "edit" && !record.blanked)
        Object.assign(target, { text: record.text, revision: target.revision + 1 });
      if (record.event === "delete")
        Object.assign(target, { text: "", attachments: [], deleted: true });
      target.folded = record.sequence;
    }
    return [sequence];
  }

  /** A record as it happens. */
  live(record) {
    const { sequence } = record;
    if (this.records.has(sequence)) return;
    this.head = Math.max(this.head, sequence);
    const chunk = chunkOf(sequence);
    // The first of a chunk, or the next behind one that is here: nothing of it is missing.
    const whole = sequence === chunk * CHUNK || sequence === this.earliest
      || this.chunks.has(chunk) || this.records.has(sequence - 1);
    const changed = whole ? this.keep(record, null, -Infinity) : this.revise(record);
    if (whole && !this.chunks.has(chunk) && chunk * CHUNK >= Math.min(this.earliest, sequence))
      this.chunks.set(chunk, "loaded");
    this.tell("bounds");
    this.tell("records", changed);
    this.tell("live", record);
  }

  tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}

const chunkOf = (sequence) => Math.floor(sequence / CHUNK);
