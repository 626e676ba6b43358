// Numbers, sizes and times as people read them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(undefined, {
  weekday: "long", day: "numeric", month: "long", year: "numeric",
});
const short = new Intl.DateTimeFormat(undefined, {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
});
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const numbers = new Intl.NumberFormat();
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

const valid = (iso) => iso && !Number.isNaN(Date.parse(iso));

export const number = (value) => numbers.format(value);
export const time = (iso) => (valid(iso) ? clock.format(new Date(iso)) : "");
export const day = (iso) => (valid(iso) ? date.format(new Date(iso)) : "");
export const when = (iso) => (valid(iso) ? short.format(new Date(iso)) : "");
export const exact = (iso) => (valid(iso) ? full.format(new Date(iso)) : "");

/** When it was said: the provider's clock where it has one. */
export const said = (record) => record.sent_at ?? record.recorded_at;

const STEPS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600],
  [30 * 86400, "day", 86400], [365 * 86400, "month", 30 * 86400], [Infinity, "year", 365 * 86400]];

/** How long ago, or in how long. */
export function ago(iso) {
  if (!valid(iso)) return "";
  const seconds = (Date.parse(iso) - Date.now()) / 1000;
  const [, unit, length] = STEPS.find(([limit]) => Math.abs(seconds) < limit);
  return relative.format(Math.round(seconds / length), unit);
}

/** A size in bytes. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const steps = ["B", "KB", "MB", "GB", "TB"];
  const step = bytes ? Math.min(4, Math.floor(Math.log10(bytes) / 3)) : 0;
  return `${numbers.format(Math.round((bytes / 1000 ** step) * 10) / 10)} ${steps[step]}`;
}

/** A long time in its largest two units. */
export function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const parts = [];
  let left = Math.round(seconds);
  for (const [length, unit] of units) {
    if (left >= length && parts.length < 2) parts.push(`${Math.floor(left / length)} ${unit}`);
    left %= length;
  }
  return parts.join(" ") || "0 s";
}

/** `1 record`, `2 records`. */
export const count = (many, one, more = one + "s") => `${number(many)} ${many === 1 ? one : more}`;
