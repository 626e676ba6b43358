// One way to ask the server, and one kind of refusal.

/** A refusal as the server says it (RFC 9457), or `offline` where nobody answered. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || "The server did not say why.");
    this.status = status;
    this.code = body.code || "unknown";
    this.facts = body.facts || {};
  }
}

/** What a cookie alone does not do: it drives nothing without this word. */
export const pass = { csrf: "" };

/** Ask, with JSON or with a file. Raises `Problem`; a refused login is told to the whole page. */
export async function call(method, path, body, more = {}) {
  const headers = { Accept: "application/json", ...more.headers };
  const file = body instanceof Blob;
  if (file) headers["Content-Type"] = body.type || "application/octet-stream";
  else if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && pass.csrf) headers["X-CSRF-Token"] = pass.csrf;
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: file || body === undefined ? body : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: more.signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "offline", detail: "The server does not answer." });
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  const problem = new Problem(answer.status, said);
  if (answer.status === 401 && !more.quiet) dispatchEvent(new CustomEvent("signed-out"));
  throw problem;
}

export const read = (path, more) => call("GET", path, undefined, more);
export const post = (path, body, more) => call("POST", path, body, more);
export const put = (path, body, more) => call("PUT", path, body, more);
export const remove = (path, more) => call("DELETE", path, undefined, more);

/** A path with its parts and its query escaped: `path("/v1/x", id, "steps", {limit: 5})`. */
export function path(base, ...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const tail = parts.map((part) => `/${segment(part)}`);
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") asked.set(name, value);
  const search = asked.toString();
  return base + tail.join("") + (search ? "?" + search : "");
}

/** A name as one step of a path. Escaped or not, browsers go up where it is dots: so twice. */
const segment = (part) => (/^\.\.?$/.test(part) ? part.replaceAll(".", "%252E") : encodeURIComponent(part));
