/** Fusion: each near miss as the pattern beside the graph, paired line by line, the first difference marked. */
import { element } from "./dom.js";
import { coloured } from "./codebox.js";
import { copyButton } from "./copy.js";
import { figure } from "./zoom.js";

/** All near misses; each can be found by the name of its pass. */
export function fusionDrawings(data) {
  return data.comparisons.map((one) => {
    const more = one.sites > 1 ? ` · ${one.sites} sites alike` : "";
    const title = `${one.pass} · pattern ${one.pattern} · graph ${one.graph}${more}`;
    const drawing = comparison(one);
    return { pass: one.pass, element: element("div", { class: "near-miss" }, figure(title, drawing, words(one))) };
  });
}

/** Rows of both sides: partners side by side, the others alone, each side in its order. */
export function aligned(pattern, graph) {
  const rows = [];
  let p = 0;
  let g = 0;
  while (p < pattern.length || g < graph.length) {
    const left = pattern[p];
    const right = graph[g];
    if (left && right && left.pair === g && right.pair === p) {
      rows.push([left, right]);
      p += 1;
      g += 1;
    } else if (left && (left.pair === null || left.pair === undefined || left.pair < g)) {
      rows.push([left, null]);
      p += 1;
    } else if (right) {
      rows.push([null, right]);
      g += 1;
    } else {
      rows.push([left, null]);
      p += 1;
    }
  }
  return rows;
}

function comparison(one) {
  const body = element("tbody");
  for (const [left, right] of aligned(one.pattern_lines, one.graph_lines)) {
    const state = stateOfPair(left, right);
    if (right?.gap) body.append(element("tr", { class: "gap" }, element("td", { colspan: 3 }, "⋯")));
    body.append(
      element("tr", { class: state }, side(left, "pattern"), element("td", { class: "relation" }, ...relation(state)), side(right, "graph")),
    );
    if (state === "differs" && (right || !one.graph_lines.some((line) => line.state === "differs"))) body.append(difference(one));
  }
  if (!one.pattern_lines.some((l) => l.state === "differs") && !one.graph_lines.some((l) => l.state === "differs")) body.append(difference(one));
  return element(
    "table", { class: "compare" },
    element("caption", { class: "sr" }, `Pattern ${one.pattern} against graph ${one.graph}`),
    element("thead", {}, element("tr", {},
      element("th", { scope: "col" }, `Pattern ${one.pattern}`),
      element("th", { scope: "col", class: "relation" }, element("span", { class: "sr" }, "Relation")),
      element("th", { scope: "col" }, `Graph ${one.graph}`))),
    body,
  );
}

/** What a row says of its two sides. */
export function stateOfPair(left, right) {
  if (left?.state === "differs" || right?.state === "differs") return "differs";
  if (!left || !right) return "around";
  return left.state === "matched" ? "matched" : "untried";
}

function side(line, which) {
  if (!line) return element("td", { class: `side ${which} nothing` });
  const type = line.type ? element("span", { class: "type" }, line.type) : null;
  return element("td", { class: `side ${which} ${line.state}` }, element("code", {}, ...coloured(line.text)), type);
}

const RELATIONS = {
  matched: ["=", "matches"],
  differs: ["≠", "differs: the first difference"],
  untried: ["·", "was not compared any more"],
  around: ["", "has no partner"],
};

function relation(state) {
  const [sign, said] = RELATIONS[state];
  return [element("span", { "aria-hidden": "true" }, sign), element("span", { class: "sr" }, said)];
}

function difference(one) {
  return element("tr", { class: "difference" }, element("td", { colspan: 3 },
    element("dl", {},
      element("div", {}, element("dt", {}, "Wanted"), element("dd", {}, one.wanted || "—")),
      element("div", {}, element("dt", {}, "Found"), element("dd", {}, one.found || "—")),
      element("div", {}, element("dt", {}, "Reason"), element("dd", {}, one.detail ? `${one.reason}: ${one.detail}` : one.reason)))));
}

function words(one) {
  const sites = one.sites === 1 ? "1 site" : `${one.sites} sites`;
  const text = [
    `${one.pass}, pattern ${one.pattern}, graph ${one.graph}: missed at ${sites}.`,
    `Matching began at ${one.anchor}, took ${one.matched_nodes} of ${one.pattern_nodes} nodes, stopped at ${one.node} (${one.stage} match).`,
    `Wanted ${one.wanted}; found ${one.found}. ${one.reason}${one.detail ? `: ${one.detail}` : ""}.`,
    "", "pattern:", ...one.pattern_lines.map((line) => `  ${marks[line.state]} ${line.text}`),
    "graph:", ...one.graph_lines.map((line) => `  ${marks[line.state]} ${line.text}`),
  ].join("\n");
  return element("div", {}, copyButton(() => text), element("pre", { tabindex: "0" }, text));
}

const marks = { matched: "=", differs: "≠", around: " " };
