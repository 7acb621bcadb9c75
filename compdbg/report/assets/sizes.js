/** Sizes as a grid: a cell a size, by how its calls were served. */
import { button, counted, element } from "./dom.js";
import { figure, firstOf } from "./zoom.js";
import { groupedBy, rowsOf } from "./data.js";
import { bytes } from "./text.js";

const STATES = {
  captured: "captured and replayed",
  padded: "padded to a captured size and replayed",
  uncaptured: "compiled, without a capture",
  failed: "the capture failed",
};

/** A grid for each graph that served sizes. */
export function sizeDrawings(view) {
  if (!view.rows) return [];
  const graphs = groupedBy(rowsOf(view.rows), (row) => row.graph);
  const makers = [...graphs].map(([graph, rows]) => () => figure(`Sizes of ${graph}`, cells(rows), asWords(rows)));
  return firstOf(makers, "graphs");
}

/** How the calls of a size were served, in a word. */
export function stateOf(row) {
  if (row.fault) return "failed";
  if (row.padded_to && row.padded_to !== row.size) return "padded";
  return row.captured ? "captured" : "uncaptured";
}

function cells(rows) {
  const detail = element("div", { class: "below", hidden: true });
  const list = element("ol", { class: "sizes" });
  for (const row of rows) {
    const state = stateOf(row);
    const calls = (row.replays ?? 0) + (row.eager_calls ?? 0);
    const cell = button("", () => {
      const already = cell.getAttribute("aria-pressed") === "true";
      for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
      cell.setAttribute("aria-pressed", String(!already));
      detail.hidden = already;
      detail.replaceChildren(sizeDetail(row));
    }, { class: `size ${state}`, "aria-pressed": "false" });
    cell.append(
      element("span", { class: "size-number" }, row.size),
      element("span", { class: "size-state" }, state === "padded" ? `padded to ${row.padded_to}` : state),
      element("span", { class: "size-calls" }, calls ? counted(calls, "call") : "not called"),
    );
    list.append(element("li", {}, cell));
  }
  const legend = element("p", { class: "legend" }, ...Object.entries(STATES).map(([state, said]) =>
    rows.some((row) => stateOf(row) === state) && element("span", {}, element("span", { class: `swatch ${state}` }), said)));
  return element("div", {}, legend, list, detail);
}

function sizeDetail(row) {
  const rows = [
    ["Size", row.size], ["Served as", STATES[stateOf(row)]], ["Why not captured", row.fault],
    ["Compiled as", row.compiled_as], ["Padded to", row.padded_to],
    ["Captures", byMode(row.captures, row.captures_by_mode)], ["Replays", byMode(row.replays, row.replays_by_mode)],
    ["Calls without a capture", row.eager_calls],
    ["of these warm-ups", row.warm_ups], ["of these refused", row.refused],
    ["Capture took", row.capture_ms === undefined ? null : `${row.capture_ms.toFixed(1)} ms`],
    ["Capture holds", row.capture_bytes === undefined ? null : bytes(row.capture_bytes)],
    ["Against eager", row.check === "not-checked" ? null : `${row.check}, at most ${row.max_abs}`],
  ].filter(([, value]) => value !== undefined && value !== null && value !== 0 && value !== "");
  return element("dl", { class: "detail" }, ...rows.map(([key, value]) =>
    element("div", {}, element("dt", {}, key), element("dd", {}, String(value)))));
}

/** A count with its parts, by what the captures hold: `6: 1 FULL, 5 PIECEWISE`. */
export function byMode(count, modes) {
  const parts = Object.entries(modes ?? {}).map(([mode, part]) => `${part} ${mode}`);
  return count && parts.length ? `${count}: ${parts.join(", ")}` : count;
}

function asWords(rows) {
  return element("ul", {}, ...rows.map((row) => element("li", {},
    `${row.size}: ${STATES[stateOf(row)]}${row.padded_to ? `, ${row.padded_to}` : ""}; ${row.replays ?? 0} replays, ` +
    `${row.eager_calls ?? 0} without a capture${row.fault ? `; ${row.fault}` : ""}`)));
}
