/** Code in a box with numbers and colours; very long ones a part at a time. */
import { button, element } from "./dom.js";
import { copyButton } from "./copy.js";
import { highlight } from "./highlight.js";
import { diffLines, folded } from "./diff.js";
import { cut, visible } from "./text.js";

const PART = 1500;
const LONGEST = 2000;

/** A line's text in colours. */
export function coloured(text) {
  return highlight(cut(visible(text, { lines: true }), LONGEST)).map(([kind, part]) =>
    kind ? element("span", { class: `t-${kind}` }, part) : part,
  );
}

/** All lines of a text. `mark`: the number of a line to show. */
export function codeBox(lines, { title, mark = 0 } = {}) {
  const rows = element("div", { class: "rows" });
  const more = element("div", { class: "more" });
  let shown = 0;
  const add = (count) => {
    const until = Math.min(lines.length, shown + count);
    for (; shown < until; shown += 1) rows.append(codeRow(shown + 1, lines[shown], mark === shown + 1 ? "here" : ""));
    more.replaceChildren();
    if (shown < lines.length) more.append(button(`Show ${Math.min(PART, lines.length - shown)} more of ${lines.length} lines`, () => add(PART)));
  };
  add(Math.max(PART, mark + PART / 2));
  return boxed(title, () => lines.join("\n"), rows, more);
}

/** Before and after with what is the same folded; a fold opens by a click. */
export function diffBox(before, after, title) {
  const rows = element("div", { class: "rows diff" });
  const steps = folded(diffLines(before, after));
  for (const step of steps) rows.append(step.kind === "fold" ? fold(step.steps) : diffRow(step));
  const same = steps.every((step) => step.kind === "fold" || step.kind === "same");
  const note = same ? element("p", { class: "empty" }, "The texts are equal: only what the text does not show changed.") : null;
  return boxed(title, () => diffText(before, after), note ?? rows, null);
}

/** A diff as text, as `diff -u` marks it. */
export function diffText(before, after) {
  const marks = { same: " ", removed: "-", added: "+" };
  return diffLines(before, after).map((step) => marks[step.kind] + step.text).join("\n");
}

function boxed(title, give, ...content) {
  const head = element("div", { class: "box-head" }, element("span", {}, title ?? ""), copyButton(give));
  const body = element("div", { class: "box-body", tabindex: "0", role: "region", "aria-label": title ?? "Code" }, ...content);
  return element("div", { class: "box" }, head, body);
}

function codeRow(number, text, kind) {
  return element("div", { class: `row ${kind}` }, element("span", { class: "number" }, number), element("code", {}, ...coloured(text)));
}

function diffRow(step) {
  const sign = { same: " ", removed: "−", added: "+" }[step.kind];
  return element(
    "div", { class: `row ${step.kind}` },
    element("span", { class: "number" }, step.before ?? ""),
    element("span", { class: "number" }, step.after ?? ""),
    element("span", { class: "sign" }, sign),
    element("code", {}, ...coloured(step.text)),
  );
}

function fold(steps) {
  const opener = button(`${steps.length} lines that are the same`, () => opener.replaceWith(...steps.map(diffRow)), { class: "fold" });
  return opener;
}
