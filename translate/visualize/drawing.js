// What all pages share: elements, colours for light and dark, matrices as tables, and moving about by arrow keys.

const data = JSON.parse(document.getElementById("data").textContent);
const darkness = matchMedia("(prefers-color-scheme: dark)");

// Lightness rises or falls evenly along each scale, and no scale relies on telling red from green.
const SCALES = {
  weight: {
    light: ["#ffffff", "#d6e6f4", "#8fc1de", "#3d8dc3", "#125ea6", "#08306b"],
    dark: ["#12161c", "#14324f", "#1a5c8e", "#3592cf", "#7cc4ef", "#dff2ff"],
  },
  signed: {
    light: ["#08306b", "#2f79b5", "#9cc7e0", "#f7f7f7", "#f3b670", "#c96a12", "#7f3b08"],
    dark: ["#bfe3ff", "#57a9e0", "#22587f", "#181c22", "#8a4d12", "#e08a2c", "#ffdca8"],
  },
};
// Okabe and Ito's colours, which colour-blind people tell apart; the dark page has lighter shades where it needs them.
const SERIES_COLOURS = {
  light: ["#0072b2", "#c25700", "#007a5a", "#a8497d", "#7a5f00", "#333333"],
  dark: ["#56b4e9", "#e69f00", "#3fc79a", "#e08fc0", "#f0e442", "#e8edf3"],
};
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

/** An element with attributes (a function is a listener) and children, which are elements or text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return dress(element, attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const theme = () => (darkness.matches ? "dark" : "light");
const seriesColour = (number) => SERIES_COLOURS[theme()][number % SERIES_COLOURS.light.length];
const dash = (number) => DASHES[Math.floor(number / SERIES_COLOURS.light.length) % DASHES.length];
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function rgb(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

/** How the line of a series looks: by its colour and, once all colours are taken, by its dashes. */
const seriesLook = (number) => ({ stroke: seriesColour(number), "stroke-dasharray": dash(number) });

/** A short piece of a series' line, for a legend. */
function makeKey(number) {
  return makeSvg("svg", { width: 34, height: 12, "aria-hidden": "true" },
    makeSvg("path", { ...seriesLook(number), "stroke-width": 2.2, d: "M1 6H33" }));
}

/** The colour at a place of a scale, from 0 to 1, as [red, green, blue]. */
function colourAt(scale, place) {
  const stops = SCALES[scale][theme()].map(rgb);
  const at = Math.min(Math.max(place, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(at), stops.length - 2);
  return stops[below].map((value, channel) => Math.round(value + (stops[below + 1][channel] - value) * (at - below)));
}

/** The colour of a number: weights by their root, so that small ones are seen; signed numbers up to ± `limit`. */
function colourOf(scale, value, limit = 1) {
  if (scale === "weight") return colourAt(scale, Math.sqrt(value));
  return colourAt(scale, 0.5 + value / (2 * limit));
}

const css = ([red, green, blue]) => `rgb(${red},${green},${blue})`;

/** Black or white, whichever is easier to read on a colour. */
function inkOn(colour) {
  const [red, green, blue] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** A canvas that is sharp on every screen, and is painted again when light turns to dark. */
function makeCanvas(width, height, label, paint) {
  const canvas = make("canvas", label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const draw = () => {
    const sharpness = window.devicePixelRatio || 1;
    canvas.width = Math.ceil(width * sharpness);
    canvas.height = Math.ceil(height * sharpness);
    const context = canvas.getContext("2d");
    context.scale(sharpness, sharpness);
    paint(context, width, height);
  };
  draw();
  canvas.repaint = draw;
  return canvas;
}

darkness.addEventListener("change", () => drawEverything());

/** The hatching that says: masked. */
function hatch(context, x, y, width, height) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.fillStyle = style("--hatch-under");
  context.fillRect(x, y, width, height);
  context.strokeStyle = style("--hatch");
  context.beginPath();
  for (let start = -height; start < width; start += 4) {
    context.moveTo(x + start, y + height);
    context.lineTo(x + start + height, y);
  }
  context.stroke();
  context.restore();
}

/** One line that says what is pointed at or focused; read aloud, but not while one moves quickly. */
function makeReadout(hint) {
  const output = make("output", { class: "readout", "aria-live": "polite" }, hint);
  output.say = (text) => { output.textContent = text || hint; };
  return output;
}

/** A legend of a scale: what its colours mean. */
function makeLegend(scale, { limit = 1, hasMasked = false } = {}) {
  const [low, high] = scale === "weight" ? [0, 1] : [-limit, limit];
  const bar = makeCanvas(180, 13, null, (context, width, height) => {
    for (let x = 0; x < width; x++) {
      context.fillStyle = css(colourOf(scale, low + ((high - low) * x) / (width - 1), limit));
      context.fillRect(x, 0, 1, height);
    }
  });
  const entries = [make("span", {}, shortNumber(low)), bar, make("span", {}, shortNumber(high))];
  if (scale === "weight") {
    entries.push(make("span", {}, "the colour goes with the root of the weight, so that small ones are seen"));
  }
  if (hasMasked) entries.push(make("span", { class: "swatch masked" }), make("span", {}, "masked: exactly 0"));
  return make("div", { class: "legend" }, ...entries);
}

function shortNumber(value) {
  if (value === null) return "none";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}

/** Arrow keys, Home and End move the focus in a grid of elements, of which one is in the order of Tab. */
function rove(container, rows) {
  const place = new Map();
  rows.forEach((row, y) => row.forEach((element, x) => {
    place.set(element, [y, x]);
    element.tabIndex = y === 0 && x === 0 ? 0 : -1;
  }));
  const focus = (element) => {
    container.querySelectorAll('[tabindex="0"]').forEach((other) => { if (place.has(other)) other.tabIndex = -1; });
    element.tabIndex = 0;
    element.focus();
  };
  container.addEventListener("keydown", (event) => {
    const at = place.get(event.target.closest("[tabindex]"));
    if (!at || event.ctrlKey || event.altKey || event.metaKey) return;
    let [y, x] = at;
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) [y, x] = [y + step[0], x + step[1]];
    else if (event.key === "Home") x = 0;
    else if (event.key === "End") x = rows[y].length - 1;
    else return;
    event.preventDefault();
    y = Math.min(Math.max(y, 0), rows.length - 1);
    x = Math.min(Math.max(x, 0), rows[y].length - 1);
    focus(rows[y][x]);
  });
}

/** Call with the element under the mouse, when a hand moves it: not when a page that scrolls moves under it. */
function whenPointedAt(element, look) {
  element.addEventListener("mousemove", (event) => { if (event.movementX || event.movementY) look(event.target); });
}

/** A matrix as a table with coloured cells.
 *
 * `values[row][column]` is a number or null (masked); `text(value)` are the children of a cell, and
 * `describe(row, column)` is what the readout says of it.
 */
function makeMatrixTable({ caption, rows, columns, values, scale, limit, text, describe, readout }) {
  const columnHeads = columns.map((label) => make("th", { scope: "col" }, make("span", {}, label)));
  const rowHeads = [];
  const cells = values.map((line, row) => line.map((value, column) => {
    const cell = make("td", value === null ? { class: "masked" } : {});
    if (value === null) {
      cell.append(make("span", { class: "hidden" }, "masked"));
    } else {
      const colour = colourOf(scale, value, limit);
      cell.style.background = css(colour);
      cell.style.color = inkOn(colour);
      cell.append(...text(value));
    }
    cell.dataset.row = row;
    cell.dataset.column = column;
    return cell;
  }));
  const body = cells.map((line, row) => {
    rowHeads.push(make("th", { scope: "row" }, rows[row]));
    return make("tr", {}, rowHeads[row], ...line);
  });
  const table = make("table", { class: "matrix", role: "grid", "aria-label": caption },
    make("thead", {}, make("tr", {}, make("td"), ...columnHeads)),
    make("tbody", {}, ...body));
  let marked = [];
  let lookedAt = null;
  const look = (target) => {
    const cell = target && target.closest("tbody td");
    if (cell === lookedAt) return;
    lookedAt = cell;
    marked.forEach((head) => head.classList.remove("looked-at"));
    if (!cell) { marked = []; return readout.say(""); }
    const [row, column] = [Number(cell.dataset.row), Number(cell.dataset.column)];
    marked = [rowHeads[row], columnHeads[column]];
    marked.forEach((head) => head.classList.add("looked-at"));
    readout.say(describe(row, column));
  };
  whenPointedAt(table, look);
  table.addEventListener("focusin", (event) => look(event.target));
  table.addEventListener("mouseleave", () => look(table.contains(document.activeElement) ? document.activeElement : null));
  rove(table, cells);
  return [make("p", { class: "note" }, caption), readout, make("div", { class: "scroll" }, table)];
}

/** A number for the eye, and one that is nearly nothing for the ear alone. */
function quietly(text, isNothing) {
  return [isNothing ? make("span", { class: "hidden" }, text) : text];
}

document.querySelector("h1").textContent = data.title;
