/** The keys: one table, from which the help is made too. */
import { button, element } from "./dom.js";

/** Listens to `keys`: `{key, said, act}`; typing into a field is left alone. */
export function listen(keys) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const found = keys.find((one) => one.key === event.key);
    if (!found) return;
    event.preventDefault();
    found.act();
  });
}

/** Whether keys go into what has the focus. */
export function isTyping(target) {
  return target instanceof Element && target.matches("input, textarea, select, [contenteditable]");
}

/** A dialog that lists them. */
export function helpDialog(keys) {
  const rows = keys.filter((one) => one.said).map((one) =>
    element("div", {}, element("dt", {}, element("kbd", {}, one.key)), element("dd", {}, one.said)));
  const dialog = element("dialog", { class: "help", "aria-labelledby": "help-title" },
    element("h2", { id: "help-title" }, "Keys"), element("dl", {}, ...rows),
    element("p", { class: "muted" }, "In a table: j, k or the arrow keys go from row to row. Esc closes."),
    button("Close", () => dialog.close(), { class: "small" }));
  document.body.append(dialog);
  return { toggle: () => (dialog.open ? dialog.close() : dialog.showModal()) };
}
