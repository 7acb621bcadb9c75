/** A drawing in a frame: larger, smaller, as it was; and beside it what it says as text. */
import { button, element } from "./dom.js";

const STEP = 1.25;
const RANGE = [0.5, 4];
const FIRST = 8;

/** `drawing` in a figure titled `title`; `asText` is its text alternative, an element. */
export function figure(title, drawing, asText) {
  let scale = 1;
  const stage = element("div", { class: "stage", tabindex: "0", role: "group", "aria-label": title }, drawing);
  const level = element("span", { class: "level" }, "100 %");
  const zoom = (to) => {
    scale = Math.min(RANGE[1], Math.max(RANGE[0], to));
    drawing.style.zoom = scale;
    level.textContent = `${Math.round(scale * 100)} %`;
  };
  stage.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? scale * STEP : scale / STEP);
    },
    { passive: false },
  );
  const tools = element(
    "div",
    { class: "zoom" },
    button("−", () => zoom(scale / STEP), { "aria-label": "Smaller" }),
    level,
    button("+", () => zoom(scale * STEP), { "aria-label": "Larger" }),
    button("Reset", () => zoom(1)),
  );
  const words = asText && element("details", { class: "as-text" }, element("summary", {}, "As text"), asText);
  return element("figure", { class: "drawing" }, element("figcaption", {}, element("span", {}, title), tools), stage, words);
}

/** The first of many drawings, and a button for the others: each of `makers` makes one when it is shown. */
export function firstOf(makers, noun) {
  const made = makers.slice(0, FIRST).map((make) => make());
  const rest = makers.slice(FIRST);
  if (!rest.length) return made;
  const more = button(`Draw ${rest.length} more ${noun}`, () => more.replaceWith(...rest.map((make) => make())), { class: "small more-drawings" });
  return [...made, more];
}
