/** The page's data: base64 of deflated JSON in elements that no browser runs; tables as columns. */

const inflated = new Map();

/** The value of one block, inflated once. */
export function load(name) {
  if (!inflated.has(name)) inflated.set(name, inflate(document.getElementById(`compdbg-${name}`).textContent));
  return inflated.get(name);
}

/** From base64 to a value. */
export async function inflate(text) {
  const raw = atob(text.replace(/\s+/g, ""));
  const bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n += 1) bytes[n] = raw.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** A column as a function from a row's number to its value. */
export function column(packed) {
  if (Array.isArray(packed)) return (n) => packed[n];
  const { of, at } = packed;
  return (n) => of[at[n]];
}

/** All rows of a packed table, as objects without the keys that are null. */
export function rowsOf(packed) {
  const columns = Object.entries(packed.columns).map(([key, values]) => [key, column(values)]);
  return Array.from({ length: packed.n }, (_, n) => {
    const row = {};
    for (const [key, at] of columns) {
      const value = at(n);
      if (value !== null) row[key] = value;
    }
    return row;
  });
}

/** The events of a run: numbers in typed arrays, what each says looked up when it is asked for. */
export function eventTable(packed) {
  const [process, rank, kind, time, seq, parent] = ["process", "rank", "kind", "time", "seq", "parent"].map((name) =>
    column(packed.headers[name]),
  );
  const of = packed.headers.kind;
  const count = Array.isArray(of) ? of.length : of.at.length;
  const times = new Float64Array(count);
  const numbers = new Uint32Array(count);
  const places = new Uint32Array(count);
  const byId = new Map();
  const last = new Map();
  const seen = new Uint32Array(packed.kinds.length);
  let micros = 0;
  for (let n = 0; n < count; n += 1) {
    micros += time(n);
    times[n] = micros / 1e6;
    numbers[n] = (last.get(process(n)) ?? 0) + seq(n);
    last.set(process(n), numbers[n]);
    places[n] = seen[kind(n)]++;
  }
  const fields = packed.kinds.map((name) =>
    Object.entries(packed.rows[name]?.columns ?? {}).map(([key, values]) => [key, column(values)]),
  );
  const id = (n) => `${process(n)}:${numbers[n]}`;
  return {
    count,
    kinds: packed.kinds,
    kind: (n) => packed.kinds[kind(n)],
    process,
    rank,
    time: (n) => times[n],
    id,
    parent: (n) => (parent(n) ? `${process(n)}:${numbers[n] - parent(n)}` : null),
    fields: (n) => fields[kind(n)].map(([key, at]) => [key, at(places[n])]).filter(([, value]) => value !== null),
    find(wanted) {
      if (!byId.size) for (let n = 0; n < count; n += 1) byId.set(id(n), n);
      return byId.get(wanted);
    },
  };
}

/** A large text from the shared list of lines; undefined where it was not kept. */
export function textOf(packed, digest) {
  const runs = packed.runs[digest];
  if (!runs) return undefined;
  const lines = [];
  for (let n = 0; n < runs.length; n += 2) {
    for (let place = runs[n]; place < runs[n] + runs[n + 1]; place += 1) lines.push(packed.lines[place]);
  }
  return lines;
}

/** Rows by what `key` says of each, in the order in which they came. */
export function groupedBy(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return groups;
}
