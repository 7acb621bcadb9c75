/** Colours for Python and for graphs, which are written like it: a line at a time, without a parser. */

const KEYWORDS = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda nonlocal not or pass raise return try while with yield self").split(" "),
);
const TOKEN =
  /(?<comment>#.*$)|(?<string>[rbfu]{0,2}(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?))|(?<number>\b\d[\w.]*(?:[eE][+-]?\d+)?\b)|(?<word>[A-Za-z_]\w*)/gu;

/** A line as pairs of a class and a text; joined, the texts are the line. */
export function highlight(line) {
  const parts = [];
  let reached = 0;
  for (const found of line.matchAll(TOKEN)) {
    const kind = kindOf(found, line);
    if (!kind) continue;
    if (found.index > reached) parts.push(["", line.slice(reached, found.index)]);
    parts.push([kind, found[0]]);
    reached = found.index + found[0].length;
  }
  if (reached < line.length) parts.push(["", line.slice(reached)]);
  return parts;
}

function kindOf(found, line) {
  const { comment, string, number, word } = found.groups;
  if (comment !== undefined) return "comment";
  if (string !== undefined) return "string";
  if (number !== undefined) return "number";
  if (KEYWORDS.has(word)) return "keyword";
  return line[found.index + word.length] === "(" ? "call" : "";
}
