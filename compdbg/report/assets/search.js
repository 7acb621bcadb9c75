/** Search over everything: findings, the rows of every table, events, and the lines of all code. */
import { button, element } from "./dom.js";
import { holds, visible, wordsOf } from "./text.js";

const EACH = 6;
const WAIT_MS = 60;
const SNIPPET = 140;

/**
 * The search of the page. `sources`: `{title, search(words, most) -> {found, hits: [{text, go}]}, all(query)}`;
 * a source may answer later (a promise).
 */
export function searchBox(sources) {
  const field = element("input", {
    type: "search", id: "search", placeholder: "Search everything", "aria-label": "Search everything", autocomplete: "off",
    spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": "results", "aria-autocomplete": "list",
  });
  const results = element("div", { class: "results", id: "results", role: "listbox", "aria-label": "Results", hidden: true });
  const whole = element("div", { class: "search" }, field, element("kbd", { "aria-hidden": "true" }, "/"), results);
  let at = -1;
  let asked = 0;
  let timer = 0;

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(run, WAIT_MS);
  });
  field.addEventListener("focus", () => field.value && run());
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Enter") (options()[Math.max(at, 0)] ?? null)?.click();
    else return;
    event.preventDefault();
  });
  document.addEventListener("pointerdown", (event) => whole.contains(event.target) || hide());

  async function run() {
    const mine = ++asked;
    const words = wordsOf(field.value);
    if (!words.length) return hide();
    const groups = await Promise.all(sources.map(async (source) => [source, await source.search(words, EACH)]));
    if (mine !== asked) return undefined;
    const made = groups.filter(([, { found }]) => found).map(([source, answer]) => groupOf(source, answer));
    results.replaceChildren(...(made.length ? made : [element("p", { class: "empty" }, `Nothing holds “${visible(field.value)}”.`)]));
    results.hidden = false;
    field.setAttribute("aria-expanded", "true");
    at = -1;
    return undefined;
  }

  function groupOf(source, { found, hits }) {
    const query = field.value;
    const rows = hits.map((hit) => option(hit.text, () => leave(hit.go)));
    if (found > hits.length && source.all) rows.push(option(`All ${found.toLocaleString("en")} in ${source.title}`, () => leave(() => source.all(query)), "all"));
    return element("div", { class: "group", role: "group", "aria-label": source.title },
      element("p", { class: "group-title", "aria-hidden": "true" }, `${source.title} `, element("span", {}, found.toLocaleString("en"))), ...rows);
  }

  function option(text, act, kind = "") {
    return button(snippet(text, wordsOf(field.value)), act, { class: `hit ${kind}`, role: "option", tabindex: "-1", "aria-selected": "false" });
  }

  function options() {
    return [...results.querySelectorAll(".hit")];
  }

  function move(by) {
    const all = options();
    if (!all.length) return;
    at = (at + by + all.length) % all.length;
    all.forEach((one, n) => one.setAttribute("aria-selected", String(n === at)));
    all[at].scrollIntoView({ block: "nearest" });
  }

  function leave(go) {
    hide();
    field.blur();
    go();
  }

  function hide() {
    results.hidden = true;
    field.setAttribute("aria-expanded", "false");
  }

  function close() {
    if (results.hidden) field.value = "";
    hide();
    field.blur();
  }

  return { element: whole, focus: () => (field.focus(), field.select()) };
}

/** The part of a text around the first word that it holds. */
export function snippet(text, words) {
  const flat = visible(text).replace(/\s+/g, " ").trim();
  if (flat.length <= SNIPPET) return flat;
  const lower = flat.toLowerCase();
  const at = Math.max(0, Math.min(...words.map((w) => lower.indexOf(w)).filter((n) => n >= 0), flat.length) - 40);
  const from = at < flat.length - 40 ? at : 0;
  return `${from ? "…" : ""}${flat.slice(from, from + SNIPPET)}…`;
}

/** A source over numbered texts in lower case: `text(n)` to search, `label(n)` to show. */
export function textSource(title, count, { text, label, go, all }) {
  return {
    title,
    all,
    search(words, most) {
      const hits = [];
      let found = 0;
      for (let n = 0; n < count; n += 1) {
        if (!holds(text(n), words)) continue;
        found += 1;
        if (hits.length < most) hits.push({ text: label(n), go: () => go(n) });
      }
      return { found, hits };
    },
  };
}
