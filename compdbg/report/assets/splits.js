/** The split as a chain of pieces; a chosen piece shows what crosses its borders. */
import { button, element } from "./dom.js";
import { figure, firstOf } from "./zoom.js";
import { groupedBy, rowsOf } from "./data.js";

/** A chain for each graph that was split. */
export function splitDrawings(view) {
  if (!view.rows) return [];
  const graphs = groupedBy(rowsOf(view.rows), (row) => row.graph);
  const makers = [...graphs].map(([graph, pieces]) => () => figure(`Split of ${graph}`, chain(pieces), asList(pieces)));
  return firstOf(makers, "graphs");
}

function chain(pieces) {
  const detail = element("div", { class: "below", hidden: true });
  const list = element("ol", { class: "chain" });
  for (const piece of pieces) {
    const open = button("", () => choose(open, piece), { class: `piece ${piece.kind}${piece.shared_with ? " twin" : ""}`, "aria-pressed": "false" });
    open.append(
      element("span", { class: "piece-name" }, piece.piece),
      element("span", { class: "piece-what" }, what(piece)),
    );
    list.append(element("li", {}, open));
  }
  function choose(chosen, piece) {
    const already = chosen.getAttribute("aria-pressed") === "true";
    for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
    chosen.setAttribute("aria-pressed", String(!already));
    detail.hidden = already;
    detail.replaceChildren(pieceDetail(piece));
  }
  const legend = element("p", { class: "legend" },
    element("span", {}, element("span", { class: "swatch compiled" }), "compiled"),
    element("span", {}, element("span", { class: "swatch twin" }), "twin of an earlier piece"),
    element("span", {}, element("span", { class: "swatch splitting" }), "splitting op"));
  return element("div", {}, legend, list, detail);
}

function what(piece) {
  if (piece.kind === "splitting") return piece.split_op ?? "splitting";
  if (piece.shared_with) return `as ${piece.shared_with}`;
  if (piece.ops === undefined) return piece.kind;
  return `${piece.ops} ${piece.ops === 1 ? "op" : "ops"}`;
}

function pieceDetail(piece) {
  const rows = [
    ["Piece", `${piece.piece} (${piece.kind})`],
    ["Ops", piece.ops], ["Splitting op", piece.split_op], ["Twin of", piece.shared_with], ["No twin because", piece.differs_by],
    ["Compiled for", piece.shared_with ? `as ${piece.shared_with}` : (piece.compiles ?? []).join(", ")],
    ["In", crossings(piece.inputs)], ["Out", crossings(piece.outputs)],
  ].filter(([, value]) => value !== undefined && value !== null && value !== "");
  return element("dl", { class: "detail" }, ...rows.map(([key, value]) =>
    element("div", {}, element("dt", {}, key), element("dd", {}, ...(Array.isArray(value) ? value : [String(value)])))));
}

function crossings(values) {
  if (!values || !values.length) return null;
  return [element("ul", { class: "crossings" }, ...values.map((value) => element("li", {}, element("code", {}, crossing(value)))))];
}

/** `x: f32[s0, 64]`, `s0: SymInt`. */
export function crossing(value) {
  return value.shape ? `${value.name}: ${value.dtype ?? ""}[${value.shape.join(", ")}]` : `${value.name}: ${value.type}`;
}

function asList(pieces) {
  const line = (piece) => `${piece.piece}: ${piece.kind}, ${what(piece)}; in ${listed(piece.inputs)}; out ${listed(piece.outputs)}`;
  return element("ol", {}, ...pieces.map((piece) => element("li", {}, line(piece))));
}

function listed(values) {
  return values && values.length ? values.map(crossing).join(", ") : "nothing known";
}
