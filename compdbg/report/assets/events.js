/** The events: a line each, and all that one says when it is chosen. */
import { element } from "./dom.js";
import { copyButton } from "./copy.js";
import { grid } from "./grid.js";
import { cut, visible } from "./text.js";

const FIELDS = 7;
const VALUE = 60;
const UNTOLD = new Set(["pass_id", "request", "factors", "text", "guard_kind"]);
const MOST = 60_000;

/** The grid of all events of a table. */
export function eventGrid(table) {
  const texts = [];
  return grid({
    name: "events",
    title: "Events",
    count: table.count,
    plain: 0,
    columns: [
      { title: "time", align: "right", at: (n) => table.time(n).toFixed(3) },
      { title: "kind", at: (n) => visible(table.kind(n)) },
      { title: "event", at: (n) => visible(table.id(n)) },
      { title: "rank", align: "right", at: (n) => table.rank(n) ?? "" },
      { title: "says", wide: true, at: (n) => summary(table.fields(n)) },
    ],
    haystack: (n) => (texts[n] ??= `${table.kind(n)}\n${table.id(n)}\n${summary(table.fields(n))}`.toLowerCase()),
    open: (n) => eventDetail(table, n),
  });
}

/** The fields that say most, on one line. */
export function summary(fields) {
  const telling = fields.filter(([name, value]) => !UNTOLD.has(name) && !bulky(value) && value !== false && value !== "");
  return telling.slice(0, FIELDS).map(([name, value]) => `${name}=${short(value)}`).join(" ");
}

function bulky(value) {
  if (value === null || typeof value !== "object") return false;
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  return size > 4 || size === 0;
}

function short(value) {
  if (value && typeof value === "object") {
    if (typeof value.file === "string") return `${visible(value.file.slice(value.file.lastIndexOf("/") + 1))}:${value.line}`;
    return clipped(visible(JSON.stringify(value)));
  }
  return clipped(visible(String(value).slice(0, 4 * VALUE)));
}

function clipped(text) {
  return text.length <= VALUE ? text : `${text.slice(0, VALUE - 1)}…`;
}

function eventDetail(table, n) {
  const all = Object.fromEntries(table.fields(n));
  const text = cut(visible(JSON.stringify(all, null, 2), { lines: true }), MOST);
  const parent = table.parent(n);
  const id = table.id(n);
  return element("div", { class: "event-detail" },
    element("p", {}, element("strong", {}, visible(table.kind(n))), ` ${visible(id)} `,
      parent ? element("a", { href: `#event/${encodeURIComponent(parent)}` }, `in ${visible(parent)}`) : null, " ",
      copyButton(() => JSON.stringify({ id, kind: table.kind(n), ...all }, null, 2))),
    element("pre", { tabindex: "0", "aria-label": "All fields" }, text));
}
