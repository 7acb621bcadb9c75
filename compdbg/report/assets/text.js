/** How text of the program is shown: nothing in it can steer the reader's eye or the terminal it is pasted to. */

const UNSEEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff]/gu;

/** Control, direction and invisible characters by their number; line ends stay where `lines` is set. */
export function visible(text, { lines = false } = {}) {
  const escaped = String(text).replace(UNSEEN, (c) => (lines && c === "\t" ? "    " : codeOf(c)));
  return lines ? escaped : escaped.replaceAll("\n", " ");
}

function codeOf(character) {
  const hex = character.codePointAt(0).toString(16);
  return `\\x${hex.padStart(2, "0")}`;
}

/** At most `most` characters, and how many there are. */
export function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length.toLocaleString("en")} characters)`;
}

/** `12 µs`, `3.4 ms`, `5.1 s`, as everywhere in compdbg. */
export function duration(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** `512 B`, `31.2 KiB`, `1.0 GiB`. */
export function bytes(count) {
  let value = count;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (value < 1024) return unit === "B" ? `${value} B` : `${value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} GiB`;
}

/** Whether a lower-case text holds each word of a query. */
export function holds(text, words) {
  return words.every((word) => text.includes(word));
}

/** The words of a query, in lower case. */
export function wordsOf(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}
