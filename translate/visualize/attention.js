// The page of one sentence's attention: which kind, layer and head, in which view, of subwords or whole words.

const VIEWS = [["matrix", "Matrix"], ["heads", "All heads"], ["lines", "Lines"], ["model", "Whole model"]];
const MEAN = -1; // in place of a head's number
const state = { ...data.start, heads: [], view: "matrix" }; // heads: several, as coloured lines
const kinds = Object.fromEntries(data.kinds.map((kind) => [kind.kind, decodeKind(kind)]));
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colours = () => data.colours[theme()];
const seriesColour = (number) => colours().series[number % colours().series.length];
/** How the lines of a head look: by their colour and, once all colours are taken, by their dashes. */
const seriesLook = (number) => ({
  stroke: seriesColour(number), "stroke-dasharray": DASHES[Math.floor(number / colours().series.length) % DASHES.length],
});

/** The colour of a weight as [red, green, blue], by its root, so that small ones show. */
function colourOf(weight) {
  const stops = colours().weight.map((hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16)));
  const at = Math.min(Math.sqrt(weight), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(at), stops.length - 2);
  return stops[below].map((each, channel) => Math.round(each + (stops[below + 1][channel] - each) * (at - below)));
}

const css = ([red, green, blue]) => `rgb(${red},${green},${blue})`;

/** Black or white, whichever has more contrast to a colour by WCAG 2, section 1.4.3: at least 4.58. */
function inkOn(colour) {
  const [red, green, blue] = colour.map((value) => (value > 10 ? ((value / 255 + 0.055) / 1.055) ** 2.4 : value / 3295));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.1791 ? "#000000" : "#ffffff";
}

/** What the colours mean. */
function makeLegend(hasMasked) {
  const stops = colours().weight.map((colour, number, { length }) => `${colour} ${100 * (number / (length - 1)) ** 2}%`);
  const bar = make("span", { class: "swatch", style: `width: 180px; background: linear-gradient(to right, ${stops})` });
  const entries = ["0", bar, "1", "the colour goes with the root of the weight, so that small ones are seen"];
  if (hasMasked) entries.push(make("span", { class: "swatch masked" }), "masked: exactly 0");
  return make("div", { class: "legend" }, ...entries.map((entry) => (typeof entry === "string" ? make("span", {}, entry) : entry)));
}

/** A canvas that is sharp on every screen. */
function makeCanvas(width, height, paint) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const sharpness = window.devicePixelRatio || 1;
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  canvas.width = Math.ceil(width * sharpness);
  canvas.height = Math.ceil(height * sharpness);
  const context = canvas.getContext("2d");
  context.scale(sharpness, sharpness);
  paint(context, width, height);
  return canvas;
}

/** A line that describes what the mouse or the focus is on; screen readers read it, but not during quick moves. */
function makeReadout(hint) {
  const output = make("output", { class: "readout", "aria-live": "polite" }, hint);
  output.say = (text) => { if (output.textContent !== (text || hint)) output.textContent = text || hint; };
  return output;
}

/** Arrow keys, Home and End move the focus in a grid of elements, of which one is in the order of Tab. */
function rove(container, rows) {
  const place = new Map();
  rows.forEach((row, y) => row.forEach((element, x) => {
    if (place.has(element)) return; // the last of a shorter column is in all rows below it
    place.set(element, [y, x]);
    element.tabIndex = y === 0 && x === 0 ? 0 : -1;
  }));
  const clamp = (value, { length }) => Math.min(Math.max(value, 0), length - 1);
  container.addEventListener("keydown", (event) => {
    const from = event.target.closest("[tabindex]");
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] };
    const step = steps[event.key];
    if (!place.has(from) || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const row = rows[clamp(place.get(from)[0] + step[0], rows)];
    const to = row[clamp(place.get(from)[1] + step[1], row)];
    place.forEach((_, element) => { element.tabIndex = element === to ? 0 : -1; });
    to.focus();
  });
}

/** Call with the element under the mouse when the mouse moves, not when the page scrolls under it. */
function whenPointedAt(element, look) {
  element.addEventListener("mousemove", (event) => { if (event.movementX || event.movementY) look(event.target); });
}

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function decodeKind(kind) {
  const numQueries = kind.visible.length;
  const numKeys = kind.visible[0].length;
  return { ...kind, layers: kind.layers.map(floats), numQueries, numKeys };
}

/** Weights of a head as rows of numbers, null where masked, in the unit that is chosen. */
function headWeights(kind, layer, head, unit) {
  if (head === MEAN) {
    const all = Array.from({ length: data.numHeads }, (_, each) => headWeights(kind, layer, each, unit));
    return all[0].map((row, y) => row.map((value, x) =>
      value === null ? null : all.reduce((sum, weights) => sum + weights[y][x], 0) / data.numHeads));
  }
  const start = head * kind.numQueries * kind.numKeys;
  const subwords = kind.visible.map((line, y) => Array.from(line, (isVisible, x) =>
    isVisible === "1" ? kind.layers[layer][start + y * kind.numKeys + x] : null));
  return unit === "words" ? mergeWords(kind, subwords) : subwords;
}

/** Weights between words: sums over the pieces of a key word, means over the pieces of a query word. */
function mergeWords(kind, subwords) {
  const queryWords = data.tokens[kind.queries].words;
  const keyWords = data.tokens[kind.keys].words;
  return queryWords.map((queryWord) => keyWords.map((keyWord) => {
    const cells = queryWord.positions.flatMap((y) => keyWord.positions.map((x) => subwords[y][x]));
    if (cells.every((cell) => cell === null)) return null;
    return cells.reduce((sum, cell) => sum + (cell || 0), 0) / queryWord.positions.length;
  }));
}

function labels(side, unit = state.unit) {
  const tokens = data.tokens[side];
  return unit === "words" ? tokens.words.map((word) => word.text) : tokens.pieces;
}

/** What an axis is called, in the unit that is chosen. */
const axisName = (name) => (state.unit === "words" ? name.replace("token", "word") : name);
const headName = (head) => (head === MEAN ? "mean of the heads" : `head ${head}`);
const areSeveral = () => state.view === "lines" && state.heads.length > 0;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function describeCell(kind, weights, row, column) {
  const [query, key] = [labels(kind.queries)[row], labels(kind.keys)[column]];
  const weight = weights[row][column];
  const value = weight === null ? "masked, exactly 0" : weight.toFixed(6);
  return `“${query}” (${row}) looks at “${key}” (${column}): ${value}`;
}

function makeChoice(title, name, options) {
  const chosen = name === "head" && areSeveral() ? null : state[name];
  return makeRadios(title, name, options, { chosen, choose: (value) => choose({ [name]: value }) });
}

/** A row of check boxes: which heads have lines in a colour of their own. */
function makeHeadsChoice(heads) {
  const segments = heads.map((head) => make("label", {},
    make("input", {
      type: "checkbox", name: "heads", value: head, checked: state.heads.includes(head),
      change: () => choose({ heads: heads.filter((each) => (each === head) !== state.heads.includes(each)) }),
    }),
    make("span", {}, `${head} `, makeSvg("svg", { width: 34, height: 12, "aria-hidden": "true" },
      makeSvg("path", { ...seriesLook(head), "stroke-width": 2.2, d: "M1 6H33" })))));
  return make("fieldset", {}, make("legend", {}, "Several heads"), make("div", { class: "segments several" }, ...segments));
}

/** Change what is shown, and keep the focus where it was. */
function choose(change) {
  Object.assign(state, "head" in change ? { heads: [] } : {}, change);
  const kind = kinds[state.kind];
  state.layer = Math.min(state.layer, kind.layers.length - 1);
  const { name, value } = document.activeElement;
  drawEverything();
  const again = name && main.querySelector(`input[name="${name}"][value="${value}"]`);
  if (again) again.focus();
}

function drawEverything() {
  const kind = kinds[state.kind];
  const isWhole = state.view === "model";
  const choices = [makeChoice("View", "view", VIEWS)];
  if (!isWhole) choices.push(makeChoice("Attention", "kind", data.kinds.map((each) => [each.kind, capital(each.name)])));
  if (!isWhole && state.view !== "heads") {
    choices.push(makeChoice("Layer, counted from 0", "layer", kind.layers.map((_, layer) => [layer, String(layer)])));
    const heads = Array.from({ length: data.numHeads }, (_, head) => [head, String(head)]);
    choices.push(makeChoice("Head", "head", [...heads, [MEAN, "mean"]]));
    if (state.view === "lines") choices.push(makeHeadsChoice(heads.map(([head]) => head)));
  }
  choices.push(makeChoice("Unit", "unit", [["subwords", "Subwords"], ["words", "Whole words"]]));
  const view = { matrix: drawMatrix, heads: drawHeads, lines: drawLines, model: drawModel }[state.view];
  main.replaceChildren(make("div", { class: "choices" }, ...choices), ...view(kind));
}

function heading(kind) {
  const unit = state.unit === "words" ? [make("p", { class: "note" }, data.merged)] : [];
  const heads = areSeveral() ? `heads ${state.heads.join(", ")}` : headName(state.head);
  return [make("h2", {}, `${capital(kind.name)}, layer ${state.layer}, ${heads}`), ...unit];
}

/** The matrix is a table with coloured cells, so that everybody can read it. */
function drawMatrix(kind) {
  const weights = headWeights(kind, state.layer, state.head, state.unit);
  const readout = makeReadout("Point at a cell, or move to the matrix with Tab and in it with the arrow keys.");
  const caption = `Rows: ${axisName(kind.rowAxis)}. Columns: ${axisName(kind.columnAxis)}. Each row sums to 1.`;
  const columnHeads = labels(kind.keys).map((label) => make("th", { scope: "col" }, make("span", {}, label)));
  const rowHeads = labels(kind.queries).map((label) => make("th", { scope: "row" }, label));
  const cells = weights.map((line, row) => line.map((weight, column) => {
    const text = weight === null ? "masked" : weight.toFixed(2);
    const isQuiet = weight === null || weight < 0.005; // nothing for the eye
    const cell = make("td", { class: weight === null ? "masked" : null, "data-row": row, "data-column": column },
      isQuiet ? make("span", { class: "hidden" }, text) : text);
    if (weight !== null) {
      const colour = colourOf(weight);
      Object.assign(cell.style, { background: css(colour), color: inkOn(colour) });
    }
    return cell;
  }));
  const table = make("table", { class: "matrix", role: "grid", "aria-label": caption },
    make("thead", {}, make("tr", {}, make("td"), ...columnHeads)),
    make("tbody", {}, ...cells.map((line, row) => make("tr", {}, rowHeads[row], ...line))));
  const look = (target) => {
    const cell = target && target.closest("tbody td");
    const [row, column] = cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : [];
    rowHeads.forEach((head, at) => head.classList.toggle("looked-at", at === row));
    columnHeads.forEach((head, at) => head.classList.toggle("looked-at", at === column));
    readout.say(cell && describeCell(kind, weights, row, column));
  };
  whenPointedAt(table, look);
  table.addEventListener("focusin", (event) => look(event.target));
  table.addEventListener("mouseleave", () => look(table.contains(document.activeElement) ? document.activeElement : null));
  rove(table, cells);
  return [
    ...heading(kind), make("p", { class: "note" }, caption), readout, make("div", { class: "scroll" }, table),
    makeLegend(weights.some((row) => row.includes(null))),
  ];
}

/** Tokens next to a small matrix or above it, each as high or as wide as its row or column. */
function makeTokens(texts, side, place) {
  const tokens = make("div", { class: `beside ${place}`, "aria-hidden": "true" }, ...texts.map((text) => make("span", {}, text)));
  tokens.style.setProperty("--side", `${side}px`);
  return tokens;
}

/** Small pictures of heads in rows of layers; a click on one shows it large.
 *
 * `side` is that of a cell in matrices, whose tokens are shown; null: the pictures are not matrices.
 */
function makeThumbnails(kind, paint, size, view, side = null) {
  const grid = make("div", { class: side === null ? "thumbnails" : "thumbnails matrices" });
  grid.style.gridTemplateColumns = `max-content repeat(${data.numHeads}, max-content)`;
  grid.append(make("span"));
  const tokens = (of, place) => (side === null ? [] : [makeTokens(labels(of), side, place)]);
  for (let head = 0; head < data.numHeads; head++) {
    grid.append(make("div", { class: "axis top" }, `head ${head}`, ...tokens(kind.keys, "above")));
  }
  const rows = kind.layers.map((_, layer) => {
    grid.append(make("div", { class: "axis" }, `layer ${layer}`, ...tokens(kind.queries, "left")));
    return Array.from({ length: data.numHeads }, (__, head) => {
      const weights = headWeights(kind, layer, head, state.unit);
      const picture = makeCanvas(...size(weights), (context, width, height) => paint(context, weights, width, height));
      const isShown = state.kind === kind.kind && state.layer === layer && state.head === head;
      const button = make("button", {
        type: "button", "aria-label": `${kind.name}, layer ${layer}, head ${head}`, "aria-pressed": String(isShown),
        click: () => {
          choose({ kind: kind.kind, layer, head, view });
          main.querySelector('input[name="view"]:checked').focus();
        },
      }, picture);
      grid.append(button);
      return button;
    });
  });
  rove(grid, rows);
  return make("div", { class: "scroll" }, grid);
}

function drawHeads(kind) {
  const side = Math.max(11, Math.min(16, Math.floor(190 / Math.max(labels(kind.queries).length, labels(kind.keys).length))));
  const paint = (context, weights) => weights.forEach((row, y) => row.forEach((weight, x) => {
    if (weight === null) return; // the canvas is hatched
    context.fillStyle = css(colourOf(weight));
    context.fillRect(x * side, y * side, side, side);
  }));
  const size = (weights) => [weights[0].length * side, weights.length * side];
  return [
    make("h2", {}, `${capital(kind.name)}: all layers and heads`),
    make("p", { class: "note" }, `Rows: ${axisName(kind.rowAxis)}. Columns: ${axisName(kind.columnAxis)}. Choose a head to see it large.`
      + (state.unit === "words" ? ` ${data.merged}` : "")),
    makeThumbnails(kind, paint, size, "matrix", side),
    makeLegend(kind.visible.some((line) => line.includes("0"))),
  ];
}

function drawModel() {
  const step = (weights) => Math.max(2.5, Math.min(9, 200 / Math.max(weights.length, weights[0].length)));
  const paint = (context, weights, width) => {
    context.strokeStyle = style("--accent");
    const at = (position) => (position + 0.5) * step(weights);
    weights.forEach((row, y) => row.forEach((weight, x) => {
      if (weight === null || weight < 0.01) return;
      context.globalAlpha = Math.sqrt(weight);
      context.lineWidth = 0.5 + 1.5 * weight;
      context.beginPath();
      context.moveTo(4, at(y));
      context.lineTo(width - 4, at(x));
      context.stroke();
    }));
  };
  const size = (weights) => [104, Math.ceil(step(weights) * Math.max(weights.length, weights[0].length))];
  const sections = data.kinds.flatMap(({ kind }) => [
    make("h3", {}, capital(kinds[kind].name)),
    make("p", { class: "note" }, `Left, from the top: ${axisName(kinds[kind].rowAxis)}. Right: ${axisName(kinds[kind].columnAxis)}.`),
    makeThumbnails(kinds[kind], paint, size, "lines"),
  ]);
  return [
    make("h2", {}, "The whole model at a glance"),
    make("p", { class: "note" }, "A line is the stronger, the more weight it stands for; below 0.01 there is none."
      + ` Choose a head to see its tokens.${state.unit === "words" ? ` ${data.merged}` : ""}`),
    ...sections,
  ];
}

function drawLines(kind) {
  const shown = (areSeveral() ? state.heads : [state.head]).map((head) => ({
    name: areSeveral() ? ` (${headName(head)})` : "",
    weights: headWeights(kind, state.layer, head, state.unit),
    look: areSeveral() ? seriesLook(head) : { stroke: style("--accent") },
  }));
  const [queries, keys] = [labels(kind.queries), labels(kind.keys)];
  const step = 28;
  const [width, height] = [340, step * Math.max(queries.length, keys.length)];
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true" });
  const lines = [];
  const apart = Math.min(4.5, 20 / shown.length); // so that no head's line covers another's
  shown.forEach(({ weights, look }, place) => weights.forEach((row, y) => row.forEach((weight, x) => {
    const at = (position) => (position + 0.5) * step + (place - (shown.length - 1) / 2) * apart;
    if (weight === null || weight < 0.005) return;
    const line = makeSvg("line", {
      x1: 0, y1: at(y), x2: width, y2: at(x), ...look,
      "stroke-width": 0.6 + 4 * weight, "stroke-opacity": Math.sqrt(weight),
    });
    lines.push([line, y, x]);
    svg.append(line);
  })));
  const readout = makeReadout("Point at a token, or move to it with Tab and the arrow keys: its weights appear.");
  const makeButtons = (texts) => texts.map((text) =>
    make("button", { type: "button" }, make("span", {}, text), ...shown.map(() => make("span", { class: "number" }))));
  const sides = [makeButtons(queries), makeButtons(keys)];
  const look = (side, position) => {
    lines.forEach(([line, y, x]) => {
      line.style.display = side === null || [y, x][side] === position ? "" : "none";
    });
    sides.forEach((tokens, number) => tokens.forEach((token, at) => {
      token.setAttribute("aria-pressed", String(side === number && at === position));
      shown.forEach(({ weights, look: { stroke } }, place) => {
        const weight = side === null || side === number ? null : side === 0 ? weights[position][at] : weights[at][position];
        const numberShown = token.children[place + 1];
        numberShown.textContent = weight === null ? "" : weight.toFixed(3);
        if (areSeveral()) {
          numberShown.style.boxShadow = weight === null ? "" : `0 3px ${stroke}`;
          return;
        }
        const colour = weight === null ? null : colourOf(weight);
        token.style.background = colour ? css(colour) : "";
        token.style.color = numberShown.style.color = colour ? inkOn(colour) : "";
      });
    }));
    if (side === null) return readout.say("");
    const strongest = shown.map(({ name, weights }) => (side === 0 ? weights[position] : weights.map((row) => row[position]))
      .map((weight, at) => [weight, at]).filter(([weight]) => weight !== null)
      .sort(([first], [second]) => second - first).slice(0, areSeveral() ? 2 : 4)
      .map(([weight, at]) => `“${(side === 0 ? keys : queries)[at]}” (${at}) ${weight.toFixed(4)}`).join(", ") + name);
    const verb = side === 0 ? "looks at" : "is looked at by";
    readout.say(`“${(side === 0 ? queries : keys)[position]}” (${position}) ${verb} ${strongest.join("; ")}`);
  };
  sides.forEach((tokens, side) => tokens.forEach((token, position) => {
    whenPointedAt(token, () => look(side, position));
    for (const event of ["focus", "click"]) token.addEventListener(event, () => look(side, position));
  }));
  const bipartite = make("div", { class: "bipartite" },
    make("h3", {}, capital(axisName(kind.rowAxis))), make("span"), make("h3", {}, capital(axisName(kind.columnAxis))),
    make("div", { class: "tokens queries" }, ...sides[0]), svg, make("div", { class: "tokens keys-side" }, ...sides[1]));
  bipartite.addEventListener("mouseleave", () => look(null, null));
  rove(bipartite, Array.from({ length: Math.max(queries.length, keys.length) }, (_, row) =>
    [sides[0][Math.min(row, queries.length - 1)], sides[1][Math.min(row, keys.length - 1)]]));
  return [
    ...heading(kind), readout, make("div", { class: "scroll" }, bipartite),
    make("p", { class: "note" }, "A line is the stronger, the more weight it stands for; below 0.005 there is none."
      + " The matrix has the same weights as a table, head by head."),
  ];
}

document.getElementById("about").append(make("dl", { class: "pair" },
  make("dt", {}, "Source"), make("dd", {}, data.source), make("dt", {}, "Target"), make("dd", {}, data.target)));
makeNotes(data.paragraphs);
drawEverything();
