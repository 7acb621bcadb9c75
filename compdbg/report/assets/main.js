/** Puts the page together: what is in it stands already; here come drawings, tables, search, keys and links. */
import { button, element } from "./dom.js";
import { column, eventTable, load, rowsOf } from "./data.js";
import { codeBrowser } from "./code.js";
import { coloured } from "./codebox.js";
import { copyButton } from "./copy.js";
import { eventGrid } from "./events.js";
import { fusionDrawings } from "./fusion.js";
import { grid } from "./grid.js";
import { helpDialog, listen } from "./keys.js";
import { bringUp, light, nextPlace, watchSections } from "./navigation.js";
import { rememberFor } from "./memory.js";
import { searchBox, textSource } from "./search.js";
import { sizeDrawings } from "./sizes.js";
import { splitDrawings } from "./splits.js";
import { themeButton } from "./theme.js";
import { visible } from "./text.js";
import { timeDrawings } from "./waterfall.js";

const byId = (id) => document.getElementById(id);
const place = (view) => document.querySelector(`.drawn[data-view="${view}"]`);
const TONES = { error: "error", failed: "error", missed: "warning", violated: "error", fired: "ok", compiled: "ok", degraded: "warning", absent: "warning", miss: "warning", hit: "ok" };

const grids = new Map();
let nearMisses = [];
let browser = null;
let events = null;
const waiting = new Map();

async function start() {
  document.documentElement.classList.add("scripted");
  decorate();
  const data = await load("views");
  rememberFor(`${data.run.path}|${data.run.started}`);
  const search = searchBox(sources(data));
  const keys = keyTable(search);
  const help = helpDialog(keys);
  keys.find((one) => one.key === "?").act = help.toggle;
  byId("tools").append(search.element, themeButton(), button("?", help.toggle, { class: "small", "aria-label": "Keys", title: "Keys" }));
  listen(keys);
  drawViews(data);
  watchSections();
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", openForPrint);
  document.body.append(element("div", { id: "said", class: "sr", role: "status" }));
  document.documentElement.classList.add("ready");
  await follow();
}

/** Copy buttons and colours for what stands in the page already. */
function decorate() {
  for (const one of document.querySelectorAll("[data-copy]")) one.append(copyButton(() => one.dataset.copy));
  for (const article of document.querySelectorAll("article.finding")) {
    const actions = article.querySelector(".actions");
    actions?.append(copyButton(() => wordsOfFinding(article), "Copy finding"));
  }
  for (const code of document.querySelectorAll("pre.source code")) code.replaceChildren(...coloured(code.textContent));
}

/** A finding as text for a ticket or a message. */
function wordsOfFinding(article) {
  const head = ["id", "severity", "code", "where"].map((name) => article.querySelector(`summary .${name}`)?.textContent ?? "").join("  ");
  const answers = [...article.querySelectorAll(".told > dl > dt")].map((dt) => `${dt.textContent}: ${dt.nextElementSibling.innerText.trim()}`);
  return [head.trim(), article.querySelector("h3").textContent, "", ...answers].join("\n");
}

function drawViews(data) {
  nearMisses = fusionDrawings(data);
  place("fusion")?.append(element("div", { class: "near-misses" }, ...nearMisses.map((one) => one.element)));
  place("splits")?.append(...splitDrawings(data.views.splits));
  place("sizes")?.append(...sizeDrawings(data.views.sizes));
  whenNear(place("time"), () => place("time").prepend(...timeDrawings(data.views.time)));
  browser = codeBrowser(data.code, () => load("texts"));
  if (browser) (place("passes") ?? byId("code")).append(browser.element);
  for (const [name, view] of Object.entries(data.views)) {
    const where = place(name);
    if (where) where.append(viewGrid(name, view));
  }
  whenNear(place("events"), () => eventsReady());
}

function viewGrid(name, view) {
  const columns = view.columns.map((c) => {
    const at = column(c.cells);
    const tone = (n) => (c.title === "false on" && at(n) ? "error" : TONES[at(n)]);
    return { title: c.title, align: c.align, wide: c.wide, at, tone: (n) => (tone(n) ? `tone ${tone(n)}` : "") };
  });
  const shown = view.columns.length ? view.columns[0].cells : [];
  const count = Array.isArray(shown) ? shown.length : shown.at.length;
  let rows = null;
  const open = view.rows ? (n) => rowDetail((rows ??= rowsOf(view.rows))[n]) : null;
  const made = grid({ name, title: view.title, columns, count, telling: view.telling ?? null, open });
  grids.set(name, made);
  const left = view.total - count;
  const note = left > 0 ? element("p", { class: "left-out" },
    `${left.toLocaleString("en")} further rows are not in this file; all of them: compdbg show ${name}`) : null;
  return element("div", {}, note, made.element);
}

/** All that a row says, where it was drawn too. */
function rowDetail(row) {
  return element("dl", { class: "detail" }, ...Object.entries(row).filter(([, v]) => v !== "").map(([key, value]) =>
    element("div", {}, element("dt", {}, key.replaceAll("_", " ")),
      element("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)))));
}

/** The events are inflated when somebody comes near them, or searches. */
function eventsReady() {
  events ??= load("events").then((packed) => {
    const table = eventTable(packed);
    const made = eventGrid(table);
    place("events")?.append(made.element);
    made.redraw();
    return { table, grid: made };
  });
  return events;
}

function whenNear(node, act) {
  if (!node) return;
  const draw = () => {
    watcher.disconnect();
    waiting.delete(node);
    act();
  };
  const watcher = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && draw(), { rootMargin: "400px" });
  waiting.set(node, draw);
  watcher.observe(node);
}

/** Draw what stands above a place and was not near yet, so that nothing moves once the reader is there. */
function drawAbove(target) {
  for (const [node, draw] of [...waiting]) {
    if (node.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING && node !== place("events")) draw();
  }
}

function sources(data) {
  const findings = [...document.querySelectorAll("article.finding")];
  const texts = findings.map((article) => article.textContent.toLowerCase());
  const made = [textSource("Findings", findings.length, {
    text: (n) => texts[n],
    label: (n) => `${findings[n].id} ${findings[n].querySelector("h3").textContent}`,
    go: (n) => goTo(findings[n].id),
  })];
  for (const [name, view] of Object.entries(data.views)) {
    if (name === "findings" || !view.total) continue;
    made.push({
      title: view.title,
      all: (query) => goTo(`${name}/${encodeURIComponent(query)}`),
      search: (words, most) => gridSource(name, view).search(words, most),
    });
  }
  made.push({ title: "Code", search: searchCode });
  made.push({
    title: "Events",
    all: (query) => goTo(`events/${encodeURIComponent(query)}`),
    search: async (words, most) => {
      const { table, grid: shown } = await eventsReady();
      return textSource("Events", table.count, {
        text: shown.textAt,
        label: (n) => shown.textAt(n).replaceAll("\n", " "),
        go: (n) => goTo(`event/${encodeURIComponent(table.id(n))}`),
      }).search(words, most);
    },
  });
  return made;
}

function gridSource(name, view) {
  const shown = grids.get(name);
  if (!shown) return { search: () => ({ found: 0, hits: [] }) };
  const label = (n) => view.columns.map((c) => column(c.cells)(n)).filter(Boolean).join(" · ");
  return textSource(view.title, shown.count, {
    text: shown.textAt,
    label,
    go: (n) => {
      goTo(name);
      shown.show(n);
    },
  });
}

async function searchCode(words, most) {
  if (!browser) return { found: 0, hits: [] };
  const packed = await load("texts");
  const matching = new Set();
  packed.lines.forEach((line, n) => words.every((w) => line.toLowerCase().includes(w)) && matching.add(n));
  const hits = [];
  let found = 0;
  for (const [graph, steps] of browser.graphs) {
    for (const [at, step] of steps.entries()) {
      const runs = step.kind === "text" ? packed.runs[step.text] ?? [] : [];
      let number = 0;
      for (let n = 0; n < runs.length; n += 2) {
        for (let line = runs[n]; line < runs[n] + runs[n + 1]; line += 1) {
          number += 1;
          if (!matching.has(line)) continue;
          found += 1;
          const mark = number;
          if (hits.length < most) hits.push({ text: `${graph} ${step.stage}:${mark} ${packed.lines[line].trim()}`, go: () => goToCode(graph, at, mark) });
        }
      }
    }
  }
  return { found, hits };
}

function goToCode(graph, at, mark) {
  goTo("code");
  browser.show(graph, at, mark);
}

/** Go to a place of the page by its fragment; also where the fragment is there already. */
function goTo(fragment) {
  if (location.hash === `#${fragment}`) follow();
  else location.hash = fragment;
}

/** Where the fragment leads: a finding, a section (with a filter), an event. */
async function follow() {
  const fragment = location.hash.slice(1);
  const slash = fragment.indexOf("/");
  const name = slash < 0 ? fragment : fragment.slice(0, slash);
  const rest = slash < 0 ? "" : decoded(fragment.slice(slash + 1));
  if (name === "event") return showEvent(rest);
  const target = (rest && grids.has(name) && place(name)) || byId(name) || place(name);
  if (!target) return undefined;
  if (name === "events") await eventsReady().then((made) => rest && made.grid.setFilter(rest, { keep: false }));
  else if (rest && grids.has(name)) grids.get(name).setFilter(rest, { keep: false });
  drawAbove(target);
  const drawing = name === "fusion" && rest ? nearMisses.find((one) => one.pass === rest)?.element : null;
  if (target.matches("article")) target.querySelector("details").setAttribute("open", "");
  bringUp(drawing ?? target);
  light(drawing ?? target);
  return undefined;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function showEvent(id) {
  const { table, grid: shown } = await eventsReady();
  const n = table.find(id);
  drawAbove(byId("events"));
  bringUp(byId("events"));
  if (n !== undefined) shown.show(n);
  else shown.setFilter(id, { keep: false });
}

function keyTable(search) {
  return [
    { key: "/", said: "search everything", act: search.focus },
    { key: "j", said: "next finding", act: () => goOn("article.finding", 1) },
    { key: "k", said: "previous finding", act: () => goOn("article.finding", -1) },
    { key: "]", said: "next section", act: () => goOn("main > section", 1) },
    { key: "[", said: "previous section", act: () => goOn("main > section", -1) },
    { key: "?", said: "these keys", act: () => undefined },
  ];
}

function goOn(selector, by) {
  const id = nextPlace(selector, by);
  if (id) goTo(id);
}

function openForPrint() {
  drawAbove(byId("events"));
  document.querySelectorAll("article.finding details").forEach((one) => one.setAttribute("open", ""));
}

function failed(error) {
  const said = `The tables could not be drawn (${visible(error.message)}). The findings above are complete; compdbg show reads the rest.`;
  byId("findings").after(element("p", { class: "broken", role: "alert" }, said));
  console.error(error);
}

start().catch(failed);
