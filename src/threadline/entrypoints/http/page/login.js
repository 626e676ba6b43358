// Who is there: a token is exchanged for a cookie once, and stands in no address.

import { pass, post, read, remove } from "./api.js";
import { h, icon } from "./dom.js";

/** What this login may: only a human's turns consent on and vouches for addresses. */
export const me = { human: false };

/** Who this browser is for the server, or null. */
export async function known() {
  try {
    return await accept(await read("/login", { quiet: true }));
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) return null;
    throw problem;
  }
}

async function accept(answer) {
  pass.csrf = answer.csrf;
  me.human = answer.kind === "controller" && (await read("/v1/me", { quiet: true })).human === true;
  return answer;
}

export async function leave() {
  await remove("/login", { quiet: true }).catch((problem) => {
    if (problem.status !== 401) throw problem;
  });
  pass.csrf = "";
}

/** The form for a token; `entered(who)` is called with whom it made of this browser. */
export function door(entered, why = "") {
  const said = h("p.bad", { role: "alert", hidden: !why }, why);
  const field = h("input", { id: "token", type: "password", name: "token", required: true,
    autocomplete: "current-password", spellcheck: "false", placeholder: "tl_…" });
  const go = h("button.primary", { type: "submit" }, "Log in");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    said.hidden = true;
    try {
      const who = await accept(await post("/login", { token: field.value.trim() }, { quiet: true }));
      if (who.kind !== "controller") {
        await leave();
        throw new Error(`This token is for a ${who.kind}. The page needs a controller's token.`);
      }
      field.value = "";
      entered(who);
    } catch (problem) {
      said.textContent = problem.status === 401 ? "No token that holds; it may have been revoked." : problem.message;
      said.hidden = false;
      field.select();
    } finally {
      go.disabled = false;
    }
  } }, h("label", { for: "token" }, "Controller token"), field, said, go);
  return h("main.door", { id: "main" },
    h("img", { src: "/assets/mark.svg", alt: "", width: 44, height: 44 }),
    h("h1", null, "threadline"),
    h("p.faint", null, "The ledger between agents and the places where people talk."),
    form,
    h("details", null, h("summary", null, "Where do I find a token?"),
      h("p", null, h("code", null, "threadline serve"),
        " names the file with the administrator’s token when it starts. Another one: "),
      h("pre", null, h("code", null, "threadline token create --kind controller"))),
    h("p.faint.links", null, h("a", { href: "/docs" }, icon("check"), "API reference")));
}
