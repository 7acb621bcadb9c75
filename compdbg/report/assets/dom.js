/** Makes elements. Text is only ever text: nothing here parses markup, and links lead into the page. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `given`: attributes; `on`: listeners; children are nodes or text. */
export function element(tag, given = {}, ...children) {
  return fill(document.createElement(tag), given, children);
}

/** An SVG element. */
export function drawn(tag, given = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), given, children);
}

function fill(node, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) setAttribute(node, name, value);
  }
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Attributes that could run something are refused; a link may only lead to a place in the page. */
function setAttribute(node, name, value) {
  if (/^on/i.test(name) || name === "style" || name === "srcdoc") throw new Error(`attribute ${name}`);
  if (name === "href" && !String(value).startsWith("#")) throw new Error("a link out of the page");
  node.setAttribute(name, value === true ? "" : String(value));
}

/** A button with a text, and what it does. */
export function button(text, act, given = {}) {
  return element("button", { type: "button", ...given, on: { click: act } }, text);
}

/** "1 row", "2 rows". */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
