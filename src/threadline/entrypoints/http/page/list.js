// A list of any length that shows a window of itself: measured heights, one scrollbar, no jumps.

const AROUND = 800;
const LARGEST = 60000;
const NEAR = 48;
const REST = 140;
const ENOUGH = 30;

/** Sums of heights in logarithmic time (a Fenwick tree that grows at its end). */
class Heights {
  constructor(count, height) {
    this.capacity = Math.max(1024, count * 2);
    this.tree = new Float64Array(this.capacity + 1);
    this.values = new Float64Array(this.capacity);
    this.count = count;
    for (let at = 0; at < count; at += 1) this.values[at] = height(at);
    for (let at = 1; at <= this.capacity; at += 1) {
      this.tree[at] += this.values[at - 1];
      const above = at + (at & -at);
      if (above <= this.capacity) this.tree[above] += this.tree[at];
    }
  }

  set(at, height) {
    const change = height - this.values[at];
    this.values[at] = height;
    for (let one = at + 1; one <= this.capacity; one += one & -one) this.tree[one] += change;
  }

  /** How far the row begins from the top. */
  before(at) {
    let sum = 0;
    for (let one = Math.min(at, this.count); one > 0; one -= one & -one) sum += this.tree[one];
    return sum;
  }

  /** The row at an offset. */
  find(offset) {
    let at = 0;
    let left = offset;
    for (let step = 2 ** Math.floor(Math.log2(this.capacity)); step; step >>= 1) {
      if (at + step <= this.count && this.tree[at + step] <= left) {
        at += step;
        left -= this.tree[at];
      }
    }
    return Math.min(at, Math.max(0, this.count - 1));
  }
}

/**
 * Rows by number. `row(number)` makes an element; `seen(first, last)` tells what is in view;
 * `guess` is how high a row is until it was measured. Of more than 60,000 rows a part is in the
 * list, and going on at its ends moves that part.
 */
export class List {
  constructor({ scroller, guess, row, seen }) {
    this.scroller = scroller;
    this.row = row;
    this.seen = seen;
    this.guess = guess;
    this.measured = new Map();
    this.mounted = new Map();
    this.learned = 0;
    this.low = 1;
    this.high = 0;
    this.sizer = document.createElement("div");
    this.sizer.className = "sizer";
    this.window = document.createElement("div");
    this.window.className = "window";
    this.sizer.append(this.window);
    this.atEnd = true;
    this.own = NaN;
    this.was = 0;
    this.pin = null;
    this.drift = 0;
    this.heights = new Heights(0, () => guess);
    this.sizes = new ResizeObserver((entries) => this.resized(entries));
    this.sizes.observe(scroller);
    this.scrolled = () => {
      const at = scroller.scrollTop;
      // Our own scrolling says nothing about where the person wants to be. Who goes up leaves the
      // end with the first pixel, who comes down need not hit it exactly.
      if (Math.abs(at - this.own) > 1) {
        this.atEnd = this.high === this.last && this.toEnd() < (at < this.was ? 2 : NEAR);
        this.pin = null;
      }
      this.own = NaN;
      this.was = at;
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.settle(), REST);
      this.soon();
    };
    scroller.addEventListener("scroll", this.scrolled, { passive: true });
  }

  get size() {
    return this.high - this.low + 1;
  }

  toEnd() {
    return this.scroller.scrollHeight - this.scroller.clientHeight - this.scroller.scrollTop - this.drift;
  }

  /** How far the view is below the top of the first row. */
  top() {
    return this.scroller.scrollTop + this.drift - this.sizer.offsetTop;
  }

  /** The numbers there are. The list keeps what it shows in place. */
  bounds(first, last) {
    const fresh = this.size <= 0;
    this.first = first;
    this.last = last;
    if (last < first) return;
    if (fresh) this.place(Math.max(first, last - LARGEST + 1), last);
    else if (first > this.low || (this.low > first && this.size < LARGEST / 2))
      this.place(Math.max(first, this.high - LARGEST + 1), Math.max(this.high, first));
    if (last > this.high && (this.atEnd || last - this.low < LARGEST * 1.5)) this.grow(last);
    this.soon();
  }

  /** Which part of all rows the list covers. */
  place(low, high) {
    const anchor = this.anchor();
    this.low = low;
    this.high = high;
    this.heights = new Heights(high - low + 1, (at) => this.measured.get(low + at) ?? this.guess);
    this.hold(anchor);
  }

  grow(high) {
    if (high - this.low + 1 > this.heights.capacity) {
      this.place(this.low, high);
      return;
    }
    for (let number = this.high + 1; number <= high; number += 1) {
      this.heights.count += 1;
      this.heights.set(number - this.low, this.measured.get(number) ?? this.guess);
    }
    this.high = high;
    this.fit();
  }

  fit() {
    this.sizer.style.height = `${this.heights.before(this.heights.count)}px`;
  }

  /** What stays where it is: what was asked for, else what is at the top of the view. */
  anchor() {
    if (this.size <= 0) return null;
    const top = this.top();
    const pinned = this.pin !== null && this.pin >= this.low && this.pin <= this.high;
    const at = pinned ? this.pin - this.low : this.heights.find(Math.max(0, top));
    return { number: this.low + at, into: top - this.heights.before(at) };
  }

  hold(anchor) {
    this.fit();
    if (this.atEnd) this.scroll(this.scroller.scrollHeight);
    else if (anchor) {
      const at = Math.min(Math.max(anchor.number, this.low), this.high) - this.low;
      this.drift += this.heights.before(at) + anchor.into - this.top();
    }
  }

  scroll(top) {
    this.drift = 0;
    if (Math.abs(this.scroller.scrollTop - top) > 0.5) this.scroller.scrollTop = top;
    this.own = this.was = this.scroller.scrollTop;
  }

  /**
   * Rows above turned out higher or lower than guessed. While somebody scrolls, the rows are moved
   * instead of the scrollbar, which would stop the scrolling; at rest the scrollbar follows.
   */
  settle() {
    if (Math.abs(this.drift) < 0.5) return;
    this.scroll(this.scroller.scrollTop + this.drift);
    this.draw();
  }

  /** Draw in the next frame, however often it is asked for. */
  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    if (!this.scroller.isConnected || !this.scroller.clientHeight) return;
    if (this.size <= 0) {
      this.window.replaceChildren();
      this.fit();
      return;
    }
    // Measured rows differ from guessed ones, so others may come into view: a few rounds settle it.
    for (let round = 0; round < 4; round += 1) {
      const anchor = this.anchor();
      if (this.atEnd) this.hold(anchor);
      const top = this.top();
      const first = this.heights.find(Math.max(0, top - AROUND));
      const last = this.heights.find(Math.max(0, top + this.scroller.clientHeight + AROUND));
      const changed = this.mount(this.low + first, this.low + last);
      const measured = this.measure();
      if (measured) this.hold(anchor);
      this.window.style.transform = `translateY(${this.heights.before(first) - this.drift}px)`;
      if (!measured && !changed) break;
    }
    const top = this.top();
    // At the ends there is no room to be off by anything.
    if (top < AROUND || this.toEnd() < AROUND) this.settle();
    this.extend();
    this.learn();
    this.seen(
      this.low + this.heights.find(Math.max(0, top)),
      this.low + this.heights.find(Math.max(0, top + this.scroller.clientHeight)),
    );
  }

  /** Going on at an end of a part moves the part. */
  extend() {
    const [first, last] = [this.low, this.high];
    const top = this.top();
    if (top < AROUND && this.low > this.first)
      this.place(Math.max(this.first, first - LARGEST / 2), Math.min(this.high, first + LARGEST / 2));
    else if (this.toEnd() < AROUND && this.high < this.last)
      this.place(Math.max(this.first, last - LARGEST / 2), Math.min(this.last, last + LARGEST / 2));
    if (this.low !== first || this.high !== last) this.soon();
  }

  /** Guess better, once there is something to learn from. */
  learn() {
    if (this.measured.size < ENOUGH || this.measured.size < this.learned * 4) return;
    this.learned = this.measured.size;
    let sum = 0;
    for (const height of this.measured.values()) sum += height;
    this.guess = sum / this.measured.size;
    this.place(this.low, this.high);
    this.soon();
  }

  mount(first, last) {
    let changed = false;
    for (const [number, element] of this.mounted) {
      if (number >= first && number <= last) continue;
      if (element.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
      this.sizes.unobserve(element);
      element.remove();
      this.mounted.delete(number);
      changed = true;
    }
    let before = this.window.firstElementChild;
    for (let number = first; number <= last; number += 1) {
      let element = this.mounted.get(number);
      if (!element) {
        element = this.row(number);
        element.dataset.number = number;
        this.mounted.set(number, element);
        this.window.insertBefore(element, before);
        this.sizes.observe(element);
        changed = true;
      }
      before = element.nextElementSibling;
    }
    return changed;
  }

  measure() {
    let changed = false;
    for (const [number, element] of this.mounted) {
      const height = element.getBoundingClientRect().height;
      if (Math.abs(height - this.heights.values[number - this.low]) < 0.5) continue;
      this.measured.set(number, height);
      this.heights.set(number - this.low, height);
      changed = true;
    }
    return changed;
  }

  resized(entries) {
    const width = this.scroller.clientWidth;
    if (entries.some((one) => one.target === this.scroller) && width !== this.width) {
      // Other lines break elsewhere: what is not in the window is a guess again.
      this.width = width;
      this.measured.clear();
      if (this.size > 0) this.place(this.low, this.high);
    }
    this.soon();
  }

  /** These rows look different now. */
  renew(numbers) {
    for (const number of numbers) {
      const old = this.mounted.get(number);
      if (!old) continue;
      const element = this.row(number);
      element.dataset.number = number;
      const focused = old === document.activeElement;
      this.sizes.unobserve(old);
      old.replaceWith(element);
      this.mounted.set(number, element);
      this.sizes.observe(element);
      if (focused) element.focus({ preventScroll: true });
    }
    this.soon();
  }

  /** Bring a row into view: at its nearest edge, or in the middle. */
  reveal(number, middle = false) {
    if (number < this.low || number > this.high) {
      const low = Math.max(this.first, number - LARGEST / 2);
      this.atEnd = false;
      this.place(low, Math.min(this.last, low + LARGEST - 1));
    }
    this.pin = number;
    for (let round = 0; round < 5; round += 1) {
      if (this.drift) this.scroll(this.scroller.scrollTop + this.drift);
      const at = number - this.low;
      const top = this.heights.before(at) + this.sizer.offsetTop;
      const height = this.heights.values[at];
      const view = this.scroller.clientHeight;
      const from = this.scroller.scrollTop;
      let to = from;
      if (middle) to = top - Math.max(0, (view - height) / 2);
      else if (top < from + 8) to = top - 8;
      else if (top + height > from + view - 8) to = Math.min(top - 8, top + height - view + 8);
      this.atEnd = false;
      this.scroll(to);
      this.draw();
      if (this.drift === 0 && this.heights.before(at) + this.sizer.offsetTop === top) break;
    }
    this.atEnd = this.high === this.last && this.toEnd() < NEAR;
    return this.mounted.get(number);
  }

  /** Go to the newest, and stay there as more comes. */
  end() {
    if (this.high !== this.last && this.last >= this.first) {
      this.atEnd = true;
      this.place(Math.max(this.first, this.last - LARGEST + 1), this.last);
    }
    this.atEnd = true;
    this.pin = null;
    this.scroll(this.scroller.scrollHeight);
    this.draw();
  }

  close() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
    this.sizes.disconnect();
    this.scroller.removeEventListener("scroll", this.scrolled);
  }
}
