// Who may call: tokens without their secrets.

import { path, post, read, remove } from "./api.js";
import { ask, paged, reveal, sure, table } from "./dialogs.js";
import { h, icon, named } from "./dom.js";
import { ago, exact, when } from "./format.js";

export class Tokens {
  constructor() {
    this.list = paged(async (after) => {
      const page = await read(path("/v1/tokens", { limit: 100, after }));
      return { items: page.tokens, next: page.next };
    }, (items) => table(["Kind", "For", "Name", "May", "Made", "State", ""], items.map((one) => this.row(one)),
      "No token yet."));
    this.element = h("div.sheet", null,
      h("header", null, h("h1", null, "Tokens"),
        h("button.primary", { type: "button", onclick: () => this.create() }, icon("plus"), "New token")),
      this.list.element);
  }

  row(one) {
    const ended = one.revoked_at ? `revoked ${ago(one.revoked_at)}`
      : one.expires_at && Date.parse(one.expires_at) < Date.now() ? "expired" : "";
    const whom = one.kind === "session" ? one.session_id
      : one.kind === "adapter" ? `${one.provider}/${one.account_id}` : one.scope_id ?? "every scope";
    return [h("span", null, one.kind), named(whom ?? ""), named(one.name || "–"), (one.scopes ?? []).join(", ") || "–",
      h("time", { datetime: one.created_at, title: exact(one.created_at) }, ago(one.created_at)),
      h("span.state", { class: ended ? "cancelled" : "delivered" },
        ended || (one.expires_at ? `until ${when(one.expires_at)}` : "holds")),
      !ended && h("span.acts", null, h("button.small.danger", { type: "button", onclick: () => this.revoke(one) }, "Revoke"))];
  }

  async create() {
    const made = await ask({ title: "New token", action: "Make token",
      fields: [
        { name: "kind", label: "Kind", half: true, choices: [["session", "session: one agent"],
          ["adapter", "adapter: one account"], ["controller", "controller: everything"]] },
        { name: "name", label: "Name", half: true, placeholder: "so that you know it again" },
        { name: "whom", label: "For", placeholder: "atlas, or slack/T1",
          note: "A session’s name, or provider/account. Nothing for a controller." }],
      submit: ({ kind, name, whom }) => {
        const [provider, ...account] = whom.split("/");
        return post("/v1/tokens", { kind, name,
          ...(kind === "session" ? { session_id: whom } : {}),
          ...(kind === "adapter" ? { provider, account_id: account.join("/") } : {}) });
      } });
    if (!made) return;
    reveal("The token", "It is shown now and never again.", made.token);
    await this.list.load();
  }

  async revoke(one) {
    if (await sure("Revoke this token?", "Whoever uses it is out at once, and its streams are cut.", "Revoke",
      () => remove(path("/v1/tokens", one.id)))) await this.list.load();
  }

  open() {
    return this.list.load();
  }

  close() {}
}
