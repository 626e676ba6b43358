// The reference, made from the server's own description of itself. Nothing comes from elsewhere.

import { read } from "./api.js";
import { h, show, theme, writing } from "./dom.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const GROUPS = [
  ["/v1/conversations", "Conversations"], ["/v1/sessions", "Sessions"], ["/v1/inbound", "Inbound"],
  ["/v1/deliveries", "Saying"], ["/v1/send", "Saying"], ["/v1/people", "People"], ["/v1/consent", "People"],
  ["/v1/limits", "People"], ["/v1/audit", "Audit"], ["/v1/search", "Search"], ["/v1/routes", "Conversations"],
  ["/v1/tokens", "Tokens"], ["/v1/links", "Guests"], ["/chat", "Guests"], ["/login", "Login"],
  ["/v1/webhooks", "Inbound"],
];
const DEPTH = 5;

let schema = {};

const groupOf = (path) => GROUPS.find(([start]) => path.startsWith(start))?.[1] ?? "The rest";
const anchorOf = (method, path) => `${method}-${path}`.replace(/[^a-z0-9]+/gi, "-").replace(/-$/, "").toLowerCase();

function resolve(node) {
  const name = node?.$ref?.split("/").at(-1);
  return name ? { ...schema.components?.schemas?.[name], name } : node ?? {};
}

/** A type in a few words. */
function typed(given) {
  const node = resolve(given);
  const options = node.oneOf ?? node.anyOf;
  if (options) return [...new Set(options.map(typed))].join(" | ");
  if (node.enum) return node.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (Array.isArray(node.type)) return node.type.join(" | ");
  if (node.type === "array") return `[${typed(node.items)}]`;
  if (node.name && node.properties) return "object";
  return (node.format && node.type === "string" ? node.format : node.type) ?? "any";
}

/** The fields of an object, and of the objects in it. */
function fields(given, depth = 0) {
  const node = resolve(given);
  const inner = node.oneOf ?? node.anyOf;
  if (inner) return inner.map((one) => fields(one, depth));
  if (node.type === "array") return fields(node.items, depth);
  if (!node.properties || depth > DEPTH) return [];
  const required = new Set(node.required ?? []);
  return h("ul.shape", null, Object.entries(node.properties).map(([name, one]) => {
    const value = resolve(one);
    const more = value.description ?? one.description;
    return h("li", null, h("code.name", null, name), required.has(name) && h("span.must", null, "required"),
      h("span.type", null, typed(one)),
      one.default !== undefined && one.default !== null && h("span.type", null, `= ${JSON.stringify(one.default)}`),
      more && depth === 0 && h("span.more", null, more), fields(one, depth + 1));
  }));
}

function parameters(list) {
  if (!list.length) return null;
  return h("section", null, h("h4", null, "Parameters"), h("ul.shape", null, list.map((one) =>
    h("li", null, h("code.name", null, one.name), h("span.where", null, one.in), one.required && h("span.must", null, "required"),
      h("span.type", null, typed(one.schema)), one.description && h("span.more", null, one.description)))));
}

function operation(path, method, found) {
  const id = anchorOf(method, path);
  const body = found.requestBody?.content?.["application/json"]?.schema;
  const answers = Object.entries(found.responses ?? {}).filter(([status]) => status < "400");
  const about = (found.description ?? found.summary ?? "").split(/\n\s*\n/);
  return h("details.operation", { id, "data-words": `${method} ${path} ${found.summary ?? ""} ${found.description ?? ""}`.toLowerCase() },
    h("summary", null, h("span.method", { class: method }, method.toUpperCase()),
      h("code.path", null, path.split(/(\{[^}]*\})/).map((part) => part.startsWith("{") ? h("i", null, part) : part)),
      h("span.about", null, about[0])),
    h("div.inside", null,
      about.slice(1).map((text) => h("p", null, text)),
      parameters(found.parameters ?? []),
      body && h("section", null, h("h4", null, "Body"), resolve(body).description && h("p.faint", null, resolve(body).description), fields(body)),
      h("section", null, h("h4", null, "Answers"), h("ul.shape", null, answers.map(([status, one]) =>
        h("li", null, h("code.name", null, status), h("span.type", null, Object.keys(one.content ?? {}).join(", ") || "no content"))))),
      h("p.faint", null, h("a", { href: `#${id}` }, "Link to this"))));
}

async function begin() {
  theme();
  const place = document.getElementById("operations");
  try {
    schema = await read("/openapi.json", { quiet: true });
  } catch (problem) {
    show(place, h("p.bad", null, problem.message));
    return;
  }
  const groups = new Map();
  for (const [path, methods] of Object.entries(schema.paths).sort(([a], [b]) => (a < b ? -1 : 1)))
    for (const method of METHODS)
      if (methods[method]) {
        const name = groupOf(path);
        groups.set(name, [...(groups.get(name) ?? []), operation(path.replace(/:\w+\}/g, "}"), method, methods[method])]);
      }
  const order = [...new Set([...GROUPS.map(([, name]) => name), "The rest"])].filter((name) => groups.has(name));
  const anchor = (name) => `group-${name.toLowerCase().replaceAll(" ", "-")}`;
  show(place, order.map((name) => h("section.group", null, h("h2", { id: anchor(name) }, name), groups.get(name))));
  show(document.getElementById("contents"), h("ul", null,
    order.map((name) => h("li", null, h("a", { href: `#${anchor(name)}` }, name))),
    h("li", null, h("a", { href: "#errors" }, "Errors"))));
  go();
}

/** What the address names: opened, and brought into view now that it is there. */
function go() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target instanceof HTMLDetailsElement) target.open = true;
  target.scrollIntoView();
}

const field = document.getElementById("filter");
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().trim().split(/\s+/);
  const fits = (text) => words.every((word) => text.includes(word));
  for (const one of document.querySelectorAll(".operation")) one.hidden = !fits(one.dataset.words);
  for (const one of document.querySelectorAll(".error")) one.hidden = !fits(one.textContent.toLowerCase());
  for (const one of document.querySelectorAll(".group")) one.hidden = !one.querySelector(".operation:not([hidden])");
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !writing(event)) {
    field.focus();
    event.preventDefault();
  } else if (event.key === "Escape") field.blur();
});
addEventListener("hashchange", go);
begin();
