/** Light, dark, or as the system has it. */
import { button } from "./dom.js";
import { remember, remembered } from "./memory.js";

const NEXT = { "": "dark", dark: "light", light: "" };
const SAID = { "": "Auto", dark: "Dark", light: "Light" };

/** A button that goes round; the choice stays. */
export function themeButton() {
  let theme = remembered("theme");
  if (!(theme in NEXT)) theme = "";
  const made = button("", () => set(NEXT[theme]), { class: "small", title: "Theme: as the system, dark, light" });
  function set(to) {
    theme = to;
    if (to) document.documentElement.dataset.theme = to;
    else delete document.documentElement.dataset.theme;
    made.textContent = SAID[to];
    made.setAttribute("aria-label", `Theme: ${SAID[to]}`);
    remember("theme", to);
  }
  set(theme);
  return made;
}
