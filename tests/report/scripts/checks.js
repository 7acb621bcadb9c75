/** What the page's modules promise, each a function that throws where it is not so. Run by Node or in a browser. */
import { aligned, stateOfPair } from "../../../compdbg/report/assets/fusion.js";
import { column, eventTable, groupedBy, inflate, rowsOf, textOf } from "../../../compdbg/report/assets/data.js";
import { delta, mostTelling, stepsOf } from "../../../compdbg/report/assets/code.js";
import { diffLines, folded } from "../../../compdbg/report/assets/diff.js";
import { highlight } from "../../../compdbg/report/assets/highlight.js";
import { snippet, textSource } from "../../../compdbg/report/assets/search.js";
import { byMode, stateOf } from "../../../compdbg/report/assets/sizes.js";
import { summary } from "../../../compdbg/report/assets/events.js";
import { bytes, cut, duration, holds, visible, wordsOf } from "../../../compdbg/report/assets/text.js";
import { ticks, timePlace, worthABar } from "../../../compdbg/report/assets/waterfall.js";
import { crossing } from "../../../compdbg/report/assets/splits.js";

function same(found, wanted) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`found ${a}, wanted ${b}`);
}

const marks = { same: " ", removed: "-", added: "+" };
const drawn = (a, b) => diffLines(a, b).map((s) => marks[s.kind] + s.text);

export const checks = {
  "a diff has the fewest lines that change": () =>
    same(drawn(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]), [" a", "-b", "+x", " c", " d", "+e"]),
  "a diff counts lines on both sides": () =>
    same(diffLines(["a", "b"], ["b"]).map((s) => [s.before, s.after]), [[1, null], [2, 1]]),
  "equal texts have no change": () => same(drawn(["a", "b"], ["a", "b"]), [" a", " b"]),
  "from nothing, all is added": () => same(drawn([], ["a"]), ["+a"]),
  "to nothing, all is removed": () => same(drawn(["a"], []), ["-a"]),
  "texts with nothing in common are replaced": () => {
    const [a, b] = [Array.from({ length: 3000 }, (_, n) => `a${n}`), Array.from({ length: 3000 }, (_, n) => `b${n}`)];
    const steps = diffLines(a, b);
    same([steps.filter((s) => s.kind === "removed").length, steps.filter((s) => s.kind === "added").length], [3000, 3000]);
  },
  "what is the same far from a change is folded": () => {
    const a = Array.from({ length: 30 }, (_, n) => `line ${n}`);
    const b = a.with(15, "changed");
    const kinds = folded(diffLines(a, b)).map((s) => (s.kind === "fold" ? s.steps.length : s.kind));
    same(kinds, [12, "same", "same", "same", "removed", "added", "same", "same", "same", 11]);
  },
  "a fold of one or two lines is not worth it": () =>
    same(folded(diffLines(["a", "b", "c"], ["a", "b", "c", "d"]), 1).map((s) => s.kind), ["same", "same", "same", "added"]),

  "a column by index": () => same([0, 1, 2].map(column({ of: ["x", { y: 1 }], at: [1, 0, 1] })), [{ y: 1 }, "x", { y: 1 }]),
  "rows lack the keys that are null": () =>
    same(rowsOf({ n: 2, columns: { a: [1, null], b: { of: ["t"], at: [0, 0] } } }), [{ a: 1, b: "t" }, { b: "t" }]),
  "a block is inflated": async () => same(await inflate("eNqr\nVkpUsjKs\nBQAIKgIJ"), { a: 1 }),
  "events have their ids, times and parents back": () => {
    const table = eventTable({
      run: "r", start: 5, kinds: ["span", "graph"],
      headers: { process: { of: ["p", "q"], at: [0, 1, 0] }, rank: [null, 1, null], kind: [0, 0, 1], time: [0, 250000, 500000], seq: [1, 1, 1], parent: [0, 0, 1] },
      rows: { span: { n: 2, columns: { name: ["a", "b"] } }, graph: { n: 1, columns: { stage: ["dynamo"], text: [null] } } },
    });
    same([0, 1, 2].map((n) => table.id(n)), ["p:1", "q:1", "p:2"]);
    same([0, 1, 2].map((n) => table.time(n)), [0, 0.25, 0.75]);
    same([table.parent(0), table.parent(2)], [null, "p:1"]);
    same([table.fields(1), table.fields(2)], [[["name", "b"]], [["stage", "dynamo"]]]);
    same([table.find("q:1"), table.find("q:2") ?? null], [1, null]);
  },
  "a text is runs of shared lines": () =>
    same(textOf({ lines: ["a", "b", "c"], runs: { d: [0, 2, 0, 1, 2, 1] } }, "d"), ["a", "b", "a", "c"]),
  "rows by a key keep their order": () =>
    same([...groupedBy([{ k: "b", n: 1 }, { k: "a", n: 2 }, { k: "b", n: 3 }], (r) => r.k)].map(([k, rows]) => [k, rows.map((r) => r.n)]), [["b", [1, 3]], ["a", [2]]]),
  "a text that was not kept is none": () => same(textOf({ lines: [], runs: {} }, "d") ?? null, null),

  "control and direction characters are shown": () => same(visible("a\u202eb\u0007\u0000\n"), "a\\x202eb\\x07\\x00 "),
  "line ends stay where lines are shown": () => same(visible("a\n\tb\r", { lines: true }), "a\n    b\\x0d"),
  "letters of any script stay": () => same(visible("naïve 模型 🙂 µ"), "naïve 模型 🙂 µ"),
  "a long text says how long it is": () => same(cut("abcdef", 3), "abc… (6 characters)"),
  "durations as in the other faces": () =>
    same([2e-6, 0.0034, 5.12, 125].map(duration), ["2 µs", "3.4 ms", "5.1 s", "2 min 5 s"]),
  "sizes as in the other faces": () => same([512, 31949, 1 << 30].map(bytes), ["512 B", "31.2 KiB", "1.0 GiB"]),
  "all words must be there": () => same([holds("a b c", wordsOf(" C  a ")), holds("a b", wordsOf("a z"))], [true, false]),

  "colours leave the text as it is": () => {
    for (const line of ["def f(x):  # it's", "x = 'a\\'b' + 1e-06", "return 'open", "", "\"a\" if not b else 3.5"]) {
      same(highlight(line).map(([, part]) => part).join(""), line);
    }
  },
  "keywords, calls, numbers, strings and comments": () =>
    same(highlight("return f(1, 'a')  # b").filter(([kind]) => kind), [
      ["keyword", "return"], ["call", "f"], ["number", "1"], ["string", "'a'"], ["comment", "# b"],
    ]),

  "partners stand side by side, the others in order": () => {
    const pattern = [{ text: "p0", pair: 1 }, { text: "p1", pair: 3 }];
    const graph = [{ text: "g0" }, { text: "g1", pair: 0 }, { text: "g2" }, { text: "g3", pair: 1 }];
    same(aligned(pattern, graph).map(([l, r]) => [l?.text ?? "", r?.text ?? ""]), [["", "g0"], ["p0", "g1"], ["", "g2"], ["p1", "g3"]]);
  },
  "a row of two lines that were not compared": () =>
    same(
      [stateOfPair({ state: "around" }, { state: "around" }), stateOfPair({ state: "matched" }, { state: "matched" }),
        stateOfPair({ state: "differs" }, null), stateOfPair(null, { state: "matched" })],
      ["untried", "matched", "differs", "around"],
    ),
  "a pattern without a partner is shown": () =>
    same(aligned([{ text: "p0", pair: null }], []).map(([l, r]) => [l.text, r]), [["p0", null]]),

  "captures by what they hold": () =>
    same([byMode(6, { FULL: 1, PIECEWISE: 5 }), byMode(2, {}), byMode(0, undefined)], ["6: 1 FULL, 5 PIECEWISE", 2, 0]),
  "a size in a word": () =>
    same(
      [{ fault: "sync" }, { captured: true, size: 4, padded_to: 4 }, { captured: true, size: 3, padded_to: 4 }, { size: 9 }].map(stateOf),
      ["failed", "captured", "padded", "uncaptured"],
    ),
  "a value that crosses a border": () =>
    same(
      [crossing({ name: "x", type: "Tensor", shape: ["s0", "4"], dtype: "float16" }), crossing({ name: "s0", type: "SymInt" })],
      ["x: float16[s0, 4]", "s0: SymInt"],
    ),
  "an event in a line": () =>
    same(
      summary([["graph", "0/0"], ["where", { file: "/a/m.py", line: 3 }], ["text", "hash"], ["nested", [1, 2, 3, 4, 5]], ["near", false]]),
      "graph=0/0 where=m.py:3",
    ),
  "steps of a graph in the order of their events": () => {
    const steps = stepsOf({
      texts: [{ graph: "g", stage: "dynamo", event: "p:2" }, { graph: "g", stage: "code", event: "p:11" }],
      changes: [{ graph: "g", pass: "A", event: "p:9", op_delta: {} }],
    });
    same(steps.get("g").map((s) => s.stage ?? s.pass), ["dynamo", "A", "code"]);
  },
  "what a pass changed in a word": () =>
    same([delta({ op_delta: { mul: -2, fused: 1 } }), delta({ op_delta: {} })], ["−2 mul  +1 fused", "arguments or order"]),
  "the graph to begin with is one that a custom pass changed": () => {
    const change = (custom) => ({ kind: "change", custom });
    same(mostTelling(new Map([["a", [change(false), change(false)]], ["b", [change(true)]]])), "b");
    same(mostTelling(new Map([["a", []], ["b", [change(false)]]])), "b");
  },
  "round ticks": () => same(ticks(0, 58).map((t) => Math.round(t)), [0, 10, 20, 30, 40, 50]),
  "a bar's time stands where there is room": () =>
    same([timePlace(10, 50, 400), timePlace(10, 380, 400), timePlace(330, 60, 400)], [[66, "start", false], [382, "end", true], [324, "end", false]]),
  "only phases that can be seen get a bar": () => {
    const phases = [{ start_s: 0, duration_s: 10 }, { start_s: 1, duration_s: 0.001 }, { start_s: 2, duration_s: 0, open: true }];
    same(worthABar(phases, 0, 10).map((p) => p.start_s), [0, 2]);
  },
  "at most 160 bars, the longest": () => {
    const phases = Array.from({ length: 400 }, (_, n) => ({ start_s: n, duration_s: 2 + n / 100 }));
    const bars = worthABar(phases, 0, 400);
    same([bars.length, bars[0].start_s], [160, 240]);
  },
  "a hit is shown around its word": () => {
    const text = `${"x".repeat(200)} needle ${"y".repeat(200)}`;
    same(snippet(text, ["needle"]).includes("needle"), true);
    same(snippet(text, ["needle"]).length < 150, true);
  },
  "a source counts all and shows a few": () => {
    const texts = ["ab", "b", "ab c", "ab"];
    const answer = textSource("T", 4, { text: (n) => texts[n], label: (n) => texts[n], go: () => 0 }).search(["ab"], 2);
    same([answer.found, answer.hits.map((h) => h.text)], [3, ["ab", "ab c"]]);
  },
};

/** Each check's name with what was wrong; an empty text where nothing was. */
export async function results() {
  const found = {};
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      found[name] = "";
    } catch (error) {
      found[name] = String(error.message || error);
    }
  }
  return found;
}
