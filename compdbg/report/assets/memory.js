/** What the reader chose (filters, theme) stays for the next visit, where the browser lets a page keep something. */

let scope = "";

/** Choices belong to one run; those of another are others. */
export function rememberFor(run) {
  scope = run;
}

export function remembered(name, fallback = "") {
  try {
    return localStorage.getItem(keyOf(name)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function remember(name, value) {
  try {
    if (value === "") localStorage.removeItem(keyOf(name));
    else localStorage.setItem(keyOf(name), value);
  } catch {
    return;
  }
}

function keyOf(name) {
  return name.startsWith("theme") ? `compdbg:${name}` : `compdbg:${scope}:${name}`;
}
