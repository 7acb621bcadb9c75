/** What changed between two texts, line by line; what is the same is folded. */

const MOST_EDITS = 2000;

/** Steps `{kind: "same" | "removed" | "added", text, before, after}` that lead from `a` to `b`; line numbers from 1. */
export function diffLines(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = shortest(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const kinds = [...Array(start).fill("same"), ...middle, ...Array(end).fill("same")];
  let before = 0;
  let after = 0;
  return kinds.map((kind) => {
    if (kind !== "added") before += 1;
    if (kind !== "removed") after += 1;
    return {
      kind,
      text: kind === "added" ? b[after - 1] : a[before - 1],
      before: kind === "added" ? null : before,
      after: kind === "removed" ? null : after,
    };
  });
}

/** Myers' shortest edit script; beyond `MOST_EDITS` edits all is removed and all is added. */
function shortest(a, b) {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const furthest = new Map([[1, 0]]);
  const trace = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(new Map(furthest));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
      let x = down ? furthest.get(k + 1) : furthest.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(trace, a.length, b.length);
    }
  }
  return [...Array(a.length).fill("removed"), ...Array(b.length).fill("added")];
}

function walkBack(trace, x, y) {
  const steps = [];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const furthest = trace[edits];
    const k = x - y;
    const down = k === -edits || (k !== edits && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
    const before = down ? k + 1 : k - 1;
    const fromX = edits === 0 ? 0 : furthest.get(before);
    const fromY = edits === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) {
      steps.push("same");
      x -= 1;
      y -= 1;
    }
    if (edits > 0) steps.push(down ? "added" : "removed");
    x = fromX;
    y = fromY;
  }
  return steps.reverse();
}

/** Steps with long runs of sameness put into `{kind: "fold", steps}`; `context` lines stay beside each change. */
export function folded(steps, context = 3) {
  const near = new Uint8Array(steps.length);
  steps.forEach((step, n) => {
    if (step.kind !== "same") near.fill(1, Math.max(0, n - context), n + context + 1);
  });
  const out = [];
  for (let n = 0; n < steps.length; n += 1) {
    if (near[n]) {
      out.push(steps[n]);
      continue;
    }
    const first = n;
    while (n + 1 < steps.length && !near[n + 1]) n += 1;
    const run = steps.slice(first, n + 1);
    out.push(...(run.length > 2 ? [{ kind: "fold", steps: run }] : run));
  }
  return out;
}
