/** Start-up and compiling as a waterfall: a bar a phase; a chosen bar fills the width. */
import { button, drawn, element } from "./dom.js";
import { groupedBy, rowsOf } from "./data.js";
import { figure, firstOf } from "./zoom.js";
import { duration } from "./text.js";

const ROW_HEIGHT = 22;
const LEAST_WIDTH = 520;
const TIME_ROOM = 120;
const MOST = 160;
const LEAST = 0.004;

/** A waterfall for each process that has phases. */
export function timeDrawings(view) {
  if (!view.rows) return [];
  const processes = groupedBy(rowsOf(view.rows), (row) => row.process);
  const makers = [...processes].map(([process, phases]) => () => {
    const rank = phases[0].rank === undefined ? `Process ${process}` : `Rank ${phases[0].rank}`;
    return figure(rank, waterfall(phases), asLines(phases));
  });
  return firstOf(makers, "processes");
}

/** The phases worth a bar: those that take a visible part of what is shown, the longest if they are many. */
export function worthABar(phases, from, until) {
  const inside = phases.filter((p) => p.start_s < until && p.start_s + p.duration_s > from);
  const visible = inside.filter((p) => p.duration_s >= (until - from) * LEAST || p.open);
  if (visible.length <= MOST) return visible;
  const least = visible.map((p) => p.duration_s).sort((a, b) => b - a)[MOST - 1];
  return visible.filter((p) => p.duration_s >= least).slice(0, MOST);
}

function waterfall(phases) {
  const end = Math.max(...phases.map((p) => p.start_s + p.duration_s), 1e-6);
  const whole = element("div", { class: "waterfall" });
  let shown = [0, end, ""];
  let width = 0;
  const show = (from, until, title) => {
    shown = [from, until, title];
    const bars = worthABar(phases, from, until);
    const left = phases.length - bars.length;
    const crumbs = element("p", { class: "crumbs" },
      title ? button("All", () => show(0, end, ""), { class: "small" }) : null,
      title ? ` ${title}, ${duration(until - from)} ` : `${duration(end)} in all; choose a bar to look into it `,
      left ? element("span", { class: "muted" }, `(${left} short phases not drawn)`) : null);
    whole.replaceChildren(crumbs, chart(bars, from, until, width, (p) => show(p.start_s, p.start_s + Math.max(p.duration_s, 1e-6), p.span)));
  };
  new ResizeObserver(() => {
    const room = Math.max(LEAST_WIDTH, whole.clientWidth);
    if (room !== width) {
      width = room;
      show(...shown);
    }
  }).observe(whole);
  return whole;
}

function chart(bars, from, until, width, zoomTo) {
  const label = Math.min(320, width * 0.32);
  const height = bars.length * ROW_HEIGHT + 24;
  const svg = drawn("svg", { class: "chart", width, height, role: "group", "aria-label": "Phases by time" });
  const x = (seconds) => label + (Math.min(until, Math.max(from, seconds)) - from) / (until - from) * (width - label - 8);
  for (const tick of ticks(from, until)) {
    svg.append(drawn("line", { class: "tick", x1: x(tick), x2: x(tick), y1: 18, y2: height }),
      drawn("text", { class: "tick-text", x: x(tick) + 3, y: 12 }, duration(tick)));
  }
  bars.forEach((phase, n) => svg.append(bar(phase, 22 + n * ROW_HEIGHT, { x, label, width }, zoomTo)));
  return svg;
}

function bar(phase, y, { x, label, width }, zoomTo) {
  const start = x(phase.start_s);
  const wide = Math.max(2, x(phase.start_s + phase.duration_s) - start);
  const said = `${phase.span}, ${duration(phase.duration_s)}, of which itself ${duration(phase.self_s)}, from ${duration(phase.start_s)} on`;
  const kind = phase.open ? "open" : phase.span === "import torch" ? "import" : "";
  const [textX, anchor, within] = timePlace(start, wide, width);
  const group = drawn("g", {
    class: `bar ${kind}`, tabindex: "0", role: "button", "aria-label": said,
    on: {
      click: () => zoomTo(phase),
      keydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), zoomTo(phase)),
    },
  });
  group.append(
    drawn("title", {}, said),
    drawn("rect", { class: "row-hit", x: 0, y, width, height: ROW_HEIGHT }),
    drawn("text", { class: "bar-name", x: 8 + Math.min(phase.depth, 12) * 12, y: y + 15 }, fitted(phase.span, Math.floor((label - 16 - Math.min(phase.depth, 12) * 12) / 7.3))),
    drawn("rect", { class: "bar-all", x: start, y: y + 3, width: wide, height: ROW_HEIGHT - 6, rx: 3 }),
    drawn("text", { class: `bar-time${within ? " within" : ""}`, x: textX, y: y + 15, "text-anchor": anchor },
      phase.open ? `${duration(phase.duration_s)}, still open` : duration(phase.duration_s)),
  );
  return group;
}

/** Where a bar's time is written: behind it, within it where that has no room, else before it. */
export function timePlace(start, wide, width) {
  if (start + wide + TIME_ROOM <= width) return [start + wide + 6, "start", false];
  return wide >= TIME_ROOM ? [start + wide - 8, "end", true] : [start - 6, "end", false];
}

function fitted(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}

/** Round times, five to ten of them. */
export function ticks(from, until) {
  const raw = (until - from) / 6;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let n = Math.ceil(from / step); n * step <= until; n += 1) found.push(n * step);
  return found;
}

function asLines(phases) {
  const longest = phases.filter((p) => p.duration_s >= 0.001).slice(0, 400);
  return element("pre", { tabindex: "0" }, longest.map((p) =>
    `${p.start_s.toFixed(3).padStart(10)} s  ${"  ".repeat(p.depth)}${p.span}  ${duration(p.duration_s)}`).join("\n"));
}
