// Elements without markup: whatever came from outside becomes a text node and nothing else.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p.note", {title}, "text", child)`. Functions under `on…` become listeners. */
export function h(spec, props = null, ...children) {
  const [tag, ...classes] = spec.split(".");
  const made = document.createElement(tag || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [name, value] of Object.entries(props ?? {})) put(made, name, value);
  fill(made, children);
  return made;
}

function put(element, name, value) {
  if (name.startsWith("aria-") && typeof value === "boolean") value = String(value);
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) {
    if (typeof value !== "function") throw new TypeError(`${name} is no function`);
    element.addEventListener(name.slice(2), value);
  } else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "value") element.value = value;
  else if (name === "href") element.setAttribute("href", safe(value));
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** An address a link may have: our own paths and plain web addresses. */
function safe(address) {
  return /^(https?:\/\/|\/(?!\/)|#)/i.test(address) ? address : "#";
}

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what an element holds. */
export function show(element, ...children) {
  element.replaceChildren();
  fill(element, children);
  return element;
}

/** A name from outside, kept apart from the direction of the text around it. */
export const named = (text, spec = "bdi") => h(spec, null, text);

const PATHS = {
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM16.2 16.2 21 21",
  close: "M6 6l12 12M18 6 6 18",
  back: "M14.5 5 7.5 12l7 7",
  panel: "M4 5h16v14H4zM15 5v14",
  link: "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.7-5.7l-1.2 1.2M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.7 5.7l1.2-1.2",
  plus: "M12 5v14M5 12h14",
  down: "M12 5v14M6 13l6 6 6-6",
  send: "M12 19V5M6 11l6-6 6 6",
  clip: "M19 11.5 12 18.4a4.2 4.2 0 0 1-6-5.9l7.2-7a2.8 2.8 0 0 1 4 3.9l-7.1 7a1.4 1.4 0 0 1-2-2l6.3-6.2",
  reply: "M9 7 4 12l5 5M4 12h10a6 6 0 0 1 6 6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5Z",
  leave: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
  rooms: "M4 5h16v11H9l-5 4z",
  outbox: "M4 13v6h16v-6M12 15V4M7 9l5-5 5 5",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 20a6.5 6.5 0 0 1 13 0M16 4.3a3.5 3.5 0 0 1 0 6.4M18 14.5a6.5 6.5 0 0 1 3.5 5.5",
  key: "M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM11 12l9-9M16 7l3 3",
  pulse: "M3 12h4l3-8 4 16 3-8h4",
  check: "M5 12.5 10 17.5 19 7",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.5 20.5a7.5 7.5 0 0 1 15 0",
  first: "M4 12 20 4l-4.5 16-4-6.5zM11.5 13.5 20 4",
  gauge: "M4.5 18a9 9 0 1 1 15 0M12 14l4-5M12 15.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Z",
  chain: "M6 4h12v5H6zM6 15h12v5H6zM12 9v6",
  more: "M5.5 11a1 1 0 1 0 0 2 1 1 0 0 0 0-2ZM12 11a1 1 0 1 0 0 2 1 1 0 0 0 0-2ZM18.5 11a1 1 0 1 0 0 2 1 1 0 0 0 0-2Z",
  note: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17ZM12 11v5M12 8h.01",
  quiet: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17ZM6 6l12 12",
};

/** One of our own line drawings. */
export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", class: "icon" }))
    drawing.setAttribute(key, value);
  drawing.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  drawing.append(path);
  return drawing;
}

/** A button with a name for everybody and a drawing. */
export function tool(drawing, label, onclick, more = {}) {
  return h("button.tool", { type: "button", "aria-label": label, title: label, onclick, ...more },
    icon(drawing));
}

/** Run again and again while somebody looks, and at once when they come back. */
export function polling(work, seconds) {
  let timer = 0;
  let ended = false;
  const round = async () => {
    clearTimeout(timer);
    if (ended) return;
    if (!document.hidden) await work();
    if (!ended) timer = setTimeout(round, seconds * 1000);
  };
  const back = () => document.hidden || round();
  document.addEventListener("visibilitychange", back);
  timer = setTimeout(round, seconds * 1000);
  return {
    now: round,
    stop() {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", back);
    },
  };
}

const teller = document.getElementById("teller");

let telling = 0;

/** Tell those who listen instead of look. Said is said: it does not stay to be read again. */
export function announce(text) {
  if (!teller) return;
  teller.textContent = text;
  clearTimeout(telling);
  telling = setTimeout(() => teller.replaceChildren(), 4000);
}

let fading = 0;

/** Say something for a moment. */
export function toast(text, kind = "") {
  const place = document.getElementById("toast");
  show(place, h("p", { class: kind, role: kind === "bad" ? "alert" : "status" }, text));
  clearTimeout(fading);
  fading = setTimeout(() => place.replaceChildren(), 6000);
}

/** Whether a key belongs to a field that is being written in. */
export function writing(event) {
  const at = event.target;
  return at instanceof HTMLElement && at.matches("input, textarea, select, [contenteditable]");
}

const THEMES = ["auto", "light", "dark"];

/** The theme this person chose; the machine's own where they did not. */
export function theme(next = false) {
  let chosen = remembered("theme") ?? "auto";
  if (next) {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    remember("theme", chosen);
    toast(chosen === "auto" ? "As your system has it." : `Always ${chosen}.`);
  }
  document.documentElement.dataset.theme = chosen;
}

/** What this browser remembers, if it does. */
export function remembered(name) {
  try {
    return localStorage.getItem(`threadline.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`threadline.${name}`, value);
  } catch {
    // A browser that keeps nothing still works.
  }
}
