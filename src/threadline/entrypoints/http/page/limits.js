// How often something may be said first, and through which accounts sessions may begin.

import { path, put, read, remove } from "./api.js";
import { ask, paged, sure, table } from "./dialogs.js";
import { h, icon, named, toast } from "./dom.js";
import { ago, exact, number } from "./format.js";

const HIGHEST = 10000;
const WHOSE = [["recipient", "To one person or room"], ["session", "By one session"], ["account", "Through one account"]];
const WINDOWS = [["hour", "in an hour"], ["day", "in a day"]];

export class Limits {
  constructor() {
    this.form = h("section.limits");
    this.granted = paged((after) => this.grants(after), (items) => this.draw(items));
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "Limits and grants")),
      h("p.lead.faint", null, "How often sessions may write first, and through which accounts."),
      this.form,
      h("section.grants", null, h("header", null, h("h2", null, "Accounts granted to sessions"),
        h("button.small", { type: "button", onclick: () => this.grant() }, icon("plus"), "Grant an account")), this.granted.element));
  }

  async open() {
    await Promise.all([this.limits(), this.granted.load()]);
  }

  async limits() {
    try {
      this.show(await read("/v1/limits"));
    } catch (problem) {
      if (problem.status !== 401) this.form.replaceChildren(h("p.bad", { role: "alert" }, problem.message));
    }
  }

  show(found) {
    const said = h("p.bad", { role: "alert", hidden: true });
    const save = h("button.primary", { type: "submit", disabled: true }, "Save limits");
    const field = (subject, window) => {
      const id = `${subject}_per_${window}`;
      return h("input", { id, name: id, type: "number", min: 0, max: HIGHEST, step: 1, required: true, value: String(found.limits[id]),
        "aria-label": `${WHOSE.find(([one]) => one === subject)[1]}, ${WINDOWS.find(([one]) => one === window)[1]}` });
    };
    const form = h("form", { oninput: () => { save.disabled = !changes(); note(); }, onsubmit: async (event) => {
      event.preventDefault();
      said.hidden = true;
      try {
        this.show(await put("/v1/limits", changes()));
        toast("The limits hold from now on.");
      } catch (problem) {
        said.textContent = problem.message;
        said.hidden = false;
      }
    } },
    h("table.grid", null,
      h("thead", null, h("tr", null, h("td"), WINDOWS.map(([, label]) => h("th", { scope: "col" }, label)))),
      h("tbody", null, WHOSE.map(([subject, label]) => h("tr", null, h("th", { scope: "row" }, label),
        WINDOWS.map(([window]) => h("td", null, field(subject, window), h("small.faint", { dataset: { about: `${subject}_per_${window}` } }))))))),
    said, h("div.foot", null, save, h("span.faint", null, found.at
      ? ["Set by ", named(found.by), " ", h("time", { datetime: found.at, title: exact(found.at) }, ago(found.at))]
      : "The standard ones: nobody set any.", " · 0 is unlimited · a window slides: what failed is given back")));
    const changes = () => {
      const given = [...form.elements].filter((one) => one.name && one.value !== "" && Number(one.value) !== found.limits[one.name]);
      return given.length ? Object.fromEntries(given.map((one) => [one.name, Number(one.value)])) : null;
    };
    const note = () => {
      for (const one of form.querySelectorAll("[data-about]")) {
        const value = form.elements[one.dataset.about].value;
        one.textContent = value === "0" ? "unlimited" : Number(value) === found.limits[one.dataset.about] ? "" : `was ${number(found.limits[one.dataset.about])}`;
      }
    };
    this.form.replaceChildren(h("h2", null, "Sends at most"), form);
    note();
  }

  /** Sessions a page at a time, and what each may begin through. */
  async grants(after) {
    const page = await read(path("/v1/sessions", { limit: 50, after }));
    const names = page.sessions.filter((one) => !one.retired_at && !one.successor).map((one) => one.session_id);
    const rows = await Promise.all(names.map((one) => read(path("/v1/sessions", one, "accounts")).then((it) => it.accounts)));
    // Nobody is told that none is granted before all were asked.
    if (!rows.flat().length && page.next) return this.grants(page.next);
    return { items: rows.flat(), next: page.next };
  }

  draw(items) {
    return table(["Session", "Account", "Granted by", "When", ""], items.map((one) => [
      named(one.session_id, "bdi.name"), h("span", null, h("span.badge.faint", null, named(one.provider)), " ", named(one.account_id)),
      named(one.by), h("time", { datetime: one.at, title: exact(one.at) }, ago(one.at)),
      h("span.acts", null, h("button.small.danger", { type: "button", onclick: () => this.withdraw(one) }, "Take back"))]),
    "None is granted, so no session writes first to anybody.");
  }

  async grant() {
    const [sessions, adapters, rooms] = await Promise.all([
      read(path("/v1/sessions", { limit: 200 })).then((page) => page.sessions, () => []),
      read(path("/v1/adapters", { limit: 200 })).then((page) => page.adapters, () => []),
      read(path("/v1/conversations", { limit: 200 })).then((page) => page.conversations, () => []),
    ]);
    const accounts = [...adapters, ...rooms.map((one) => one.ref)].filter((one) => one.provider !== "internal")
      .map((one) => `${one.provider}/${one.account_id}`);
    if (await ask({ title: "Grant an account", action: "Grant",
      about: "The session may start conversations through it, with those who consent, within the limits.",
      fields: [{ name: "session", label: "Session", required: true, placeholder: "atlas",
        offers: sessions.filter((one) => !one.retired_at && !one.successor).map((one) => one.session_id) },
      { name: "account", label: "Account", required: true, placeholder: "telegram/7001", offers: [...new Set(accounts)],
        note: "PROVIDER/ACCOUNT." }],
      submit: ({ session, account }) => {
        const [provider, ...rest] = account.split("/");
        if (!rest.join("/")) throw new Error("Write it as PROVIDER/ACCOUNT, for example telegram/7001.");
        return put(path("/v1/sessions", session, "accounts", provider, rest.join("/")), undefined);
      } })) await this.granted.load();
  }

  async withdraw(one) {
    if (await sure("Take this account back?", `${one.session_id} starts no conversation through ${one.provider}/${one.account_id} any more. What is not sent yet is cancelled.`,
      "Take back", () => remove(path("/v1/sessions", one.session_id, "accounts", one.provider, one.account_id)))) await this.granted.again();
  }

  close() {}
}
