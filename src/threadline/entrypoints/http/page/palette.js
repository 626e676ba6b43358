// One field for everything: rooms by name, messages by their words, places of the page.

import { path, read } from "./api.js";
import { dialog } from "./dialogs.js";
import { h, icon, named } from "./dom.js";
import { when, said } from "./format.js";
import { line } from "./prose.js";
import { author } from "./row.js";

const PAUSE = 180;

/** Open it. `places` are `{label, drawing, go}`, `rooms()` the rooms there are. */
export function palette({ rooms, places, open, start = "" }) {
  let timer = 0;
  let asked = null;
  let hits = [];
  let at = 0;
  const list = h("div.found", { role: "listbox", id: "found", "aria-label": "What was found" });
  const field = h("input", { type: "text", enterkeyhint: "search", value: start, placeholder: "Rooms, words, places…",
    role: "combobox", "aria-controls": "found", "aria-expanded": "true", "aria-label": "Search",
    autocomplete: "off", spellcheck: "false",
    oninput: () => changed(), onkeydown: (event) => key(event) });
  const note = h("p.faint.hint", { role: "status" });
  const box = dialog("Search", h("div.palette", null, field, list, note), () => {
    clearTimeout(timer);
    asked?.abort();
  });
  box.classList.add("wide");

  function entries() {
    const words = field.value.trim().toLocaleLowerCase();
    const fits = (text) => words.split(/\s+/).every((word) => text.toLocaleLowerCase().includes(word));
    const near = rooms().filter((one) => fits(`${one.title} ${one.text}`)).slice(0, words ? 6 : 8);
    return [
      ...near.map((one) => ({ group: "Rooms", drawing: "rooms", label: named(one.title || one.text),
        more: one.title ? one.text : "", go: () => open(one.id) })),
      ...hits.map((hit) => ({ group: "Messages", drawing: "search",
        label: h("span", null, named(author(hit.record), "bdi.name"), " ", h("span", { dir: "auto" }, line(hit.record.text, 120))),
        more: `${roomName(hit)} · ${when(said(hit.record))}`,
        go: () => open(hit.conversation, hit.record.sequence, hit.record.event === "edit") })),
      ...places.filter((one) => fits(one.label)).map((one) => ({ group: "Go to", ...one, label: one.label })),
    ];
  }

  function roomName(hit) {
    const room = rooms().find((one) => one.id === hit.conversation);
    return room?.title || room?.text || `${hit.ref.provider}/${hit.ref.conversation_id}`;
  }

  function draw() {
    const found = entries();
    at = Math.min(at, Math.max(0, found.length - 1));
    let group = "";
    const rows = [];
    found.forEach((one, number) => {
      if (one.group !== group) rows.push(h("p.group", { role: "presentation" }, (group = one.group)));
      rows.push(h("div.entry", { role: "option", id: `found-${number}`, "aria-selected": number === at,
        onclick: () => choose(one), onmousemove: () => move(number, false) },
      icon(one.drawing), h("span.label", null, one.label), h("small", null, one.more)));
    });
    list.replaceChildren(...rows);
    field.setAttribute("aria-activedescendant", found.length ? `found-${at}` : "");
    note.textContent = found.length ? "" : "Nothing has these words.";
    return found;
  }

  function move(to, reveal = true) {
    if (to === at) return;
    const options = [...list.querySelectorAll(".entry")];
    options[at]?.setAttribute("aria-selected", "false");
    at = to;
    options[at]?.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", `found-${at}`);
    if (reveal) options[at]?.scrollIntoView({ block: "nearest" });
  }

  function choose(one) {
    box.close();
    one.go();
  }

  function key(event) {
    const found = list.querySelectorAll(".entry").length;
    if (event.key === "ArrowDown" && found) move((at + 1) % found);
    else if (event.key === "ArrowUp" && found) move((at + found - 1) % found);
    else if (event.key === "Enter") {
      const one = entries()[at];
      if (one) choose(one);
    } else return;
    event.preventDefault();
  }

  function changed() {
    at = 0;
    clearTimeout(timer);
    const words = field.value.trim();
    if (words.length < 2) {
      hits = [];
      draw();
      return;
    }
    draw();
    timer = setTimeout(() => look(words), PAUSE);
  }

  async function look(words) {
    asked?.abort();
    asked = new AbortController();
    try {
      const found = await read(path("/v1/search", { q: words, limit: 30 }), { signal: asked.signal });
      hits = found.hits;
      draw();
    } catch (problem) {
      if (problem.name !== "AbortError") note.textContent = problem.message;
    }
  }

  changed();
  field.focus();
}
