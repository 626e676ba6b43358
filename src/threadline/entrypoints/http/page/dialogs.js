// Asking a person: a form in a dialog, a question, a secret that is shown once.

import { h, icon, show, toast, tool } from "./dom.js";

let numbers = 0;

function control(field, id) {
  const common = { id, name: field.name, required: field.required };
  if (field.choices)
    return h("select", common, field.choices.map(([value, label]) =>
      h("option", { value, selected: value === field.value }, label)));
  if (field.lines)
    return h("textarea", { ...common, rows: field.lines, value: field.value ?? "", placeholder: field.placeholder,
      maxlength: field.longest, dir: "auto" });
  return h("input", { ...common, list: field.offers && `${id}-offers`, type: field.type ?? "text", value: field.value ?? "",
    placeholder: field.placeholder, autocomplete: "off", spellcheck: "false",
    min: field.min, max: field.max, maxlength: field.longest ?? 500 });
}

/**
 * A form in a dialog. `submit(values)` does the work and may raise a `Problem`, which is shown
 * where it was made, `told` says how; what it gives back is the answer, null where the person went away.
 */
export function ask({ title, about, fields = [], action, danger = false, submit, told = (words) => words }) {
  return new Promise((resolve) => {
    let answer = null;
    let gone = false;
    let busy = false;
    const said = h("p.bad", { role: "alert", hidden: true });
    const go = h("button.primary", { type: "submit", class: danger ? "danger" : "" }, action);
    const rows = fields.map((field) => {
      const id = `field-${(numbers += 1)}`;
      const note = field.note && h("small", { id: `${id}-note` }, field.note);
      const made = control(field, id);
      if (note) made.setAttribute("aria-describedby", `${id}-note`);
      return h("div.field", { class: field.half ? "half" : "" },
        h("label", { for: id }, field.label), made,
        field.offers && h("datalist", { id: `${id}-offers` }, field.offers.map((one) => h("option", { value: one }))), note);
    });
    const form = h("form", { method: "dialog", onsubmit: async (event) => {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(form));
      for (const [name, value] of Object.entries(values))
        if (typeof value === "string") values[name] = value.trim();
      if (busy) return;
      busy = go.disabled = true;
      said.hidden = true;
      try {
        answer = (await submit(values)) ?? true;
        box.close();
      } catch (problem) {
        if (gone) toast(problem.message, "bad");
        show(said, told(problem.message));
        said.hidden = false;
        said.scrollIntoView({ block: "center" });
      } finally {
        busy = go.disabled = false;
        if (gone) resolve(answer);
      }
    } }, h("div.asked", null, about && h("p.faint", null, about), h("div.fields", null, rows), said),
    h("div.choices", null,
      h("button", { type: "button", onclick: () => box.close() }, "Cancel"), go));
    const box = dialog(title, form, () => {
      // What was asked for is done all the same where somebody only stopped to look at it.
      gone = true;
      if (!busy) resolve(answer);
    });
  });
}

/** Whether a person is sure. */
export const sure = (title, about, action, submit) =>
  ask({ title, about, action, danger: true, submit });

/** A dialog with a heading; `closed` is called when it is gone. */
export function dialog(title, content, closed = () => {}) {
  const id = `dialog-${(numbers += 1)}`;
  const box = h("dialog.card", { "aria-labelledby": id },
    h("header", null, h("h2", { id }, title), tool("close", "Close", () => box.close())), content);
  box.addEventListener("close", () => {
    box.remove();
    closed();
  });
  box.addEventListener("mousedown", (event) => event.target === box && box.close());
  document.body.append(box);
  box.showModal();
  box.querySelector("input, select, textarea, .primary")?.focus();
  return box;
}

/** Something that is shown now and never again. */
export function reveal(title, about, secret) {
  const value = h("output.secret", { tabindex: 0 }, secret);
  const copy = h("button.primary", { type: "button", onclick: () =>
    navigator.clipboard.writeText(secret).then(() => toast("Copied."), () => {
      getSelection().selectAllChildren(value);
      toast("Selected; copy it with your keyboard.");
    }) }, icon("copy"), "Copy");
  const box = dialog(title, h("div.content", null, h("p.faint", null, about), value,
    h("div.choices", null, h("button", { type: "button", onclick: () => box.close() }, "Done"), copy)));
  return box;
}

/** A table that becomes a list of cards where there is no room for columns. */
export function table(columns, rows, empty) {
  if (!rows.length) return h("p.empty", null, empty);
  return h("table.cards", null,
    h("thead", null, h("tr", null, columns.map((one) => h("th", { scope: "col" }, one)))),
    h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, at) =>
      h("td", { "data-label": columns[at] }, cell))))));
}

/**
 * A list that is read a page at a time: `more(cursor)` gives `{items, next}`. `load` begins it, `again`
 * reads anew as much of it as is shown. An answer that another question overtook is not drawn.
 */
export function paged(load, draw) {
  const place = h("div.paged");
  const button = h("button", { type: "button", hidden: true, onclick: () => read(true, 1) }, "Show more");
  let items = [];
  let cursor;
  let pages = 0;
  let turn = 0;
  const read = async (further, many) => {
    const mine = (turn += 1);
    let [found, next, seen] = further ? [items, cursor, pages] : [[], undefined, 0];
    try {
      for (let left = many; left > 0; left -= 1) {
        const page = await load(next);
        if (mine !== turn) return;
        [found, next, seen] = [[...found, ...page.items], page.next, seen + 1];
        if (!next) break;
      }
      [items, cursor, pages] = [found, next, seen];
      button.hidden = !cursor;
      place.replaceChildren(draw(items));
    } catch (problem) {
      if (problem.status === 401 || mine !== turn) return;
      place.replaceChildren(h("p.bad", { role: "alert" }, problem.message, " ",
        h("button", { type: "button", onclick: () => read(false, 1) }, "Try again")));
    }
  };
  return { element: h("div", null, place, button), load: () => read(false, 1), again: () => read(false, Math.max(1, pages)) };
}
