// Following a conversation: server-sent events that come back by themselves, without a gap.

const FIRST = 400;
const LONGEST = 8000;

/**
 * A stream that is opened again behind the last record it gave, whatever cut it.
 *
 * `address(after)` is where to listen; `probe()` says whether one may still listen (it raises
 * `Problem`); `on` has `record`, `reset`, `end` and `state` ("live", "waiting", "ended").
 */
export class Live {
  constructor({ address, after, probe, on }) {
    this.address = address;
    this.after = after;
    this.probe = probe;
    this.on = on;
    this.delay = FIRST;
    this.closed = false;
    this.wake = () => this.source ?? this.open();
    this.seen = () => document.hidden || this.wake();
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.seen);
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    if (this.closed) return;
    const source = new EventSource(this.address(this.after));
    this.source = source;
    source.onopen = () => {
      this.delay = FIRST;
      this.on.state("live");
    };
    source.addEventListener("record", (event) => {
      const record = JSON.parse(event.data);
      if (record.sequence <= this.after) return;
      this.after = record.sequence;
      this.on.record(record);
    });
    source.addEventListener("reset", () => {
      this.close();
      this.on.reset();
    });
    source.addEventListener("end", (event) => this.ended(JSON.parse(event.data).reason));
    source.onerror = () => this.again();
  }

  ended(reason) {
    if (reason === "revoked" || reason === "unauthenticated" || reason === "not_found") {
      this.close();
      this.on.end(reason);
    } else this.again();
  }

  async again() {
    if (this.closed || !this.source) return;
    this.source.close();
    this.source = null;
    this.on.state("waiting");
    try {
      await this.probe();
    } catch (problem) {
      if ([401, 403, 404, 410].includes(problem.status)) {
        this.close();
        this.on.end(problem.code);
        return;
      }
    }
    if (this.closed || this.source) return;
    this.timer = setTimeout(() => this.open(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(LONGEST, this.delay * 2);
  }

  /** Somebody knows of a record that did not come: the line is dead without having said so. */
  nudge(head) {
    if (head > this.after && this.missing === this.after) this.again();
    this.missing = head > this.after ? this.after : null;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.seen);
  }
}
