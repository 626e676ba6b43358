// Words from outside as elements: code, bold words and web addresses. Everything is a text node.

import { h } from "./dom.js";

const FENCE = /```([\w+#.-]{0,20})[^\S\n]*\n([\s\S]*?)(?:\n```|$)/g;
const INLINE = /`([^`\n]{1,500})`|\*\*([^*\n]{1,500})\*\*|(https?:\/\/[^\s<>"'`\]}]{1,2000})/g;
const TAIL = /[.,;:!?)]+$/;
const LONG = 3000;
const LINES = 40;

/** A message's text, shortened where it would fill the screen several times. */
export function prose(text) {
  const short = shortened(text);
  if (short === text) return h("div.text", { dir: "auto" }, parts(text));
  const rest = text.length - short.length;
  const place = h("div.text", { dir: "auto" }, parts(short + "…"));
  const more = h("button.more", { type: "button", onclick: () => {
    place.replaceChildren(...parts(text));
    more.remove();
  } }, `Show the other ${rest.toLocaleString()} characters`);
  return [place, more];
}

function shortened(text) {
  const lines = text.split("\n", LINES + 1);
  const cut = lines.length > LINES ? lines.slice(0, LINES).join("\n") : text;
  if (cut.length <= LONG + 200) return cut;
  // Never between the halves of a surrogate pair.
  const end = /[\uD800-\uDBFF]/.test(cut[LONG - 1]) ? LONG - 1 : LONG;
  return cut.slice(0, end);
}

function parts(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(FENCE)) {
    // The block has its own space around it.
    found.push(...inline(text.slice(from, match.index).replace(/\n+$/, "")));
    found.push(h("pre", { tabindex: 0, dir: "ltr" }, h("code", null, match[2])));
    from = match.index + match[0].length;
    while (text[from] === "\n") from += 1;
  }
  return [...found, ...inline(text.slice(from))];
}

function inline(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(document.createTextNode(text.slice(from, match.index)));
    from = match.index + match[0].length;
    if (match[1] !== undefined) found.push(h("code", null, match[1]));
    else if (match[2] !== undefined) found.push(h("strong", null, match[2]));
    else found.push(...address(match[3]));
  }
  found.push(document.createTextNode(text.slice(from)));
  return found;
}

/** A link that tells its target nothing about us, and what stood behind it in the sentence. */
function address(text) {
  const tail = TAIL.exec(text)?.[0] ?? "";
  const target = tail ? text.slice(0, -tail.length) : text;
  const link = h("a", {
    href: target, target: "_blank", rel: "noopener noreferrer nofollow ugc", dir: "ltr",
  }, target);
  return [link, document.createTextNode(tail)];
}

/** The beginning of a text on one line. */
export function line(text, length = 140) {
  const flat = text.slice(0, length * 2).replace(/\s+/g, " ").trim();
  return flat.length > length ? flat.slice(0, length - 1).trimEnd() + "…" : flat;
}
