/** Buttons that copy; they say that they did. */
import { button, element } from "./dom.js";

const SAID_MS = 1600;

/** A button that copies the text that `give` returns. */
export function copyButton(give, label = "Copy") {
  const made = button(label, async () => {
    const done = await copyText(give());
    made.textContent = done ? "Copied" : "Press Ctrl+C";
    announce(done ? "Copied" : "Could not copy");
    setTimeout(() => (made.textContent = label), SAID_MS);
  }, { class: "small" });
  return made;
}

/** Also where the page may not use the clipboard: then through a selection. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", { class: "sr", "aria-hidden": "true" }, text);
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** Says something to those who listen to the page rather than look at it. */
export function announce(text) {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}
