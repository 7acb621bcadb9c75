/** Code: each graph from Dynamo to what Inductor wrote, a step a stage or a pass that changed something. */
import { button, counted, element } from "./dom.js";
import { codeBox, diffBox } from "./codebox.js";
import { groupedBy, textOf } from "./data.js";
import { duration } from "./text.js";

/** The browser of graphs. `texts()` gives the large texts when they are first needed. */
export function codeBrowser(code, texts) {
  const graphs = stepsOf(code);
  if (!graphs.size) return null;
  const stage = element("div", { class: "code-stage" });
  const list = element("ol", { class: "steps" });
  const choice = element("select", { "aria-label": "Graph" }, ...[...graphs.keys()].map((name) => element("option", { value: name }, name)));
  choice.addEventListener("change", () => showGraph(choice.value));

  function showGraph(name, place = null) {
    choice.value = name;
    const steps = graphs.get(name);
    list.replaceChildren(...steps.map((step, n) => element("li", {}, stepButton(step, () => showStep(name, n)))));
    showStep(name, place ?? firstWorth(steps));
  }

  async function showStep(name, place, mark = 0) {
    const step = graphs.get(name)[place];
    [...list.querySelectorAll("button")].forEach((b, n) => b.setAttribute("aria-pressed", String(n === place)));
    stage.replaceChildren(element("p", { class: "empty" }, "Reading…"));
    const packed = await texts();
    stage.replaceChildren(contentOf(step, packed, mark));
  }

  showGraph(mostTelling(graphs));
  return {
    element: element("div", { class: "code-browser" },
      element("label", { class: "choice" }, element("span", {}, "Graph"), choice),
      element("div", { class: "code-panes" }, list, stage)),
    show(name, place, mark) {
      if (graphs.has(name)) {
        showGraph(name, place);
        if (mark) showStep(name, place, mark);
      }
    },
    graphs,
  };
}

/** Graph -> its stages and changes in the order in which they came to be. */
export function stepsOf(code) {
  const texts = code.texts.map((text) => ({ kind: "text", ...text }));
  const changes = code.changes.map((change) => ({ kind: "change", ...change }));
  const graphs = groupedBy([...texts, ...changes], (step) => step.graph);
  for (const [graph, steps] of graphs) graphs.set(graph, steps.map((s, n) => [s, n]).sort(byEvent).map(([s]) => s));
  return graphs;
}

function byEvent([a, m], [b, n]) {
  const [pa, sa] = split(a.event);
  const [pb, sb] = split(b.event);
  return pa === pb ? sa - sb : m - n;
}

function split(event) {
  const at = event.lastIndexOf(":");
  return [event.slice(0, at), Number(event.slice(at + 1))];
}

/** The first graph that a custom pass changed, else the one that was changed most. */
export function mostTelling(graphs) {
  const all = [...graphs];
  const custom = all.find(([, steps]) => steps.some((step) => step.kind === "change" && step.custom));
  const changes = (steps) => steps.filter((step) => step.kind === "change").length;
  return (custom ?? all.reduce((best, one) => (changes(one[1]) > changes(best[1]) ? one : best)))[0];
}

/** A custom pass that changed something, else the last graph before the generated code. */
function firstWorth(steps) {
  const custom = steps.findIndex((step) => step.kind === "change" && step.custom);
  if (custom >= 0) return custom;
  const code = steps.findIndex((step) => step.stage === "code");
  return Math.max(0, (code < 0 ? steps.length : code) - 1);
}

function stepButton(step, act) {
  const made = button("", act, { class: `step ${step.kind}${step.custom ? " custom" : ""}`, "aria-pressed": "false" });
  if (step.kind === "text") made.append(element("span", { class: "step-name" }, step.stage), element("span", { class: "step-what" }, step.title));
  else made.append(element("span", { class: "step-name" }, step.pass), element("span", { class: "step-what" }, delta(step)));
  return made;
}

/** `+1 demo.fused −2 aten.mul`. */
export function delta(change) {
  const parts = Object.entries(change.op_delta).map(([op, count]) => `${count > 0 ? "+" : "−"}${Math.abs(count)} ${op}`);
  return parts.length ? parts.join("  ") : "arguments or order";
}

function contentOf(step, packed, mark) {
  const missing = () => element("p", { class: "empty" }, "This text is not in the report: it was not recorded, or was left out for size.");
  if (step.kind === "text") {
    const lines = textOf(packed, step.text);
    const ops = step.ops ? `, ${counted(step.ops, "op")}` : "";
    return lines ? codeBox(lines, { title: `${step.graph}, ${step.title}${ops}`, mark }) : missing();
  }
  const [before, after] = [textOf(packed, step.before), textOf(packed, step.after)];
  return before && after ? diffBox(before, after, `${step.pass} on ${step.graph}, ${duration(step.duration_us / 1e6)}`) : missing();
}
