// What all pages share: their data, elements, light and dark, and numbers as text.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const darkness = matchMedia("(prefers-color-scheme: dark)");
const theme = () => (darkness.matches ? "dark" : "light");

/** An element with attributes (a function is a listener) and children, which are elements or text. */
const make = (tag, attributes = {}, ...children) => dress(document.createElement(tag), attributes, children);
const makeSvg = (tag, attributes = {}, ...children) =>
  dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Radio buttons that look like buttons in a row; arrow keys move in it, as in every group of them. */
function makeRadios(title, name, options, { chosen, choose }) {
  const segments = options.map(([value, text]) => make("label", {},
    make("input", { type: "radio", name, value, checked: value === chosen, change: () => choose(value) }),
    make("span", {}, text)));
  return make("fieldset", {}, make("legend", {}, title), make("div", { class: "segments" }, ...segments));
}

function makeNotes(texts) {
  document.getElementById("about").append(...texts.map((text) => make("p", { class: "note" }, text)));
}

function makeScrollable(element, label) {
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, element);
}

function shortNumber(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}

darkness.addEventListener("change", () => drawEverything());
document.querySelector("h1").textContent = data.title;
