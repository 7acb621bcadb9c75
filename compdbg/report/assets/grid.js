/** A table with a filter. Long ones are windowed: only the rows in sight are in the page. */
import { button, counted, element } from "./dom.js";
import { copyButton } from "./copy.js";
import { remember, remembered } from "./memory.js";
import { holds, wordsOf } from "./text.js";

const PLAIN = 120;
const ROW = 30;
const BEYOND = 12;
const LONG = 60;

/**
 * `name` is where its filter is remembered. `columns`: `{title, align, wide, at(n)}`. `telling`: the rows
 * shown at first, if not all. `open(n)`: what a chosen row shows below itself, an element or nothing.
 */
export function grid({ name, title, columns, count, telling = null, open = null, haystack = null, plain = PLAIN }) {
  const texts = [];
  const textAt = haystack ?? ((n) => (texts[n] ??= columns.map((c) => c.at(n)).join("\n").toLowerCase()));
  let all = telling === null || remembered(`all:${name}`) === "yes";
  let query = remembered(`filter:${name}`);
  let rows = [];
  let chosen = -1;

  const field = element("input", {
    type: "search", placeholder: "Filter", "aria-label": `Filter ${title}`, value: query, autocomplete: "off", spellcheck: "false",
  });
  const said = element("span", { class: "count", role: "status" });
  const more = button("", () => setAll(!all), { class: "small" });
  const head = element("tr", {}, ...columns.map((c) => element("th", { scope: "col", class: c.align }, c.title)));
  const body = element("tbody");
  const table = element("table", { class: "grid", "aria-label": title }, element("thead", {}, head), body);
  const frame = element("div", { class: "frame", tabindex: "0", role: "region", "aria-label": `${title}, table` }, table);
  const below = element("div", { class: "below", hidden: true });

  field.addEventListener("input", () => setFilter(field.value));
  frame.addEventListener("scroll", () => rows.length > plain && draw(), { passive: true });

  function setFilter(text, { keep = true } = {}) {
    query = text;
    if (field.value !== text) field.value = text;
    if (keep) remember(`filter:${name}`, text);
    choose(-1);
    refresh();
    frame.scrollTop = 0;
    draw();
  }

  function setAll(to) {
    all = to;
    remember(`all:${name}`, to ? "yes" : "");
    refresh();
    draw();
  }

  function refresh() {
    const words = wordsOf(query);
    const candidates = all || words.length ? null : telling;
    rows = [];
    const length = candidates ? candidates.length : count;
    for (let i = 0; i < length; i += 1) {
      const n = candidates ? candidates[i] : i;
      if (!words.length || holds(textAt(n), words)) rows.push(n);
    }
    said.textContent = rows.length === count ? counted(count, "row") : `${rows.length.toLocaleString("en")} of ${counted(count, "row")}`;
    more.hidden = telling === null || words.length > 0;
    more.textContent = all ? "Only what tells" : `Show all ${count.toLocaleString("en")}`;
    table.setAttribute("aria-rowcount", rows.length + 1);
    table.classList.toggle("windowed", rows.length > plain);
    frame.classList.toggle("windowed", rows.length > plain);
  }

  function draw() {
    if (rows.length <= plain) {
      body.replaceChildren(...rows.map((n, place) => rowOf(n, place)));
      return;
    }
    const height = frame.clientHeight || 600;
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - BEYOND);
    const last = Math.min(rows.length, Math.ceil((frame.scrollTop + height) / ROW) + BEYOND);
    const shown = [];
    for (let place = first; place < last; place += 1) shown.push(rowOf(rows[place], place));
    body.replaceChildren(spacer(first), ...shown, spacer(rows.length - last));
  }

  function spacer(length) {
    const cell = element("td", { colspan: columns.length, class: "spacer" });
    cell.style.height = `${length * ROW}px`;
    return element("tr", { "aria-hidden": "true", class: "space" }, cell);
  }

  function rowOf(n, place) {
    const cells = columns.map((c) => {
      const text = String(c.at(n) ?? "");
      const classes = [c.align, c.wide ? "wide" : "", c.tone ? c.tone(n) : ""].filter(Boolean).join(" ");
      const content = c.wide && rows.length <= plain ? element("div", { class: "clip" }, text) : text;
      return element("td", { class: classes, title: text.length > LONG ? text : null }, content);
    });
    const row = element("tr", { "aria-rowindex": place + 2, class: n === chosen ? "chosen" : null, "data-row": n }, ...cells);
    if (open) {
      row.classList.add("opens");
      row.addEventListener("click", () => choose(n === chosen ? -1 : n));
    }
    return row;
  }

  function choose(n) {
    chosen = n;
    for (const row of body.children) row.classList.toggle("chosen", row.dataset?.row === String(n));
    const content = n >= 0 && open ? open(n) : null;
    below.hidden = !content;
    below.replaceChildren(...(content ? [content] : []));
  }

  /** Scroll to a row, choosing it; a filter that hides it is taken off. */
  function show(n) {
    if (!rows.includes(n)) {
      all = true;
      setFilter("", { keep: false });
    }
    const place = rows.indexOf(n);
    if (rows.length > plain) {
      frame.scrollTop = Math.max(0, place * ROW - frame.clientHeight / 2);
      draw();
    }
    choose(n);
    body.querySelector(`[data-row="${n}"]`)?.scrollIntoView({ block: "nearest" });
  }

  /** To the next or previous row, as the arrow keys do. */
  function step(by) {
    const place = Math.min(rows.length - 1, Math.max(0, rows.indexOf(chosen) + by));
    if (rows.length) show(rows[place]);
  }

  frame.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (!by || !open || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    step(by);
  });

  const tools = element(
    "div", { class: "grid-tools" }, field, said, more,
    copyButton(() => asText(rows, columns), "Copy table"),
  );
  const whole = element("div", { class: "grid-whole" }, tools, frame, below);
  refresh();
  draw();
  return { element: whole, setFilter, show, redraw: draw, count, textAt };
}

/** The rows as tab-separated text with a head. */
export function asText(rows, columns) {
  const lines = rows.map((n) => columns.map((c) => String(c.at(n) ?? "").replace(/[\t\n]/g, " ")).join("\t"));
  return [columns.map((c) => c.title).join("\t"), ...lines].join("\n");
}
