// Cross-attention of each layer and head, as a picture and in words.

import { find, make, makeSvg, number, segments } from "./elements.js";

const [LEAST_CELL, CELL] = [15, 30]; // pixels
const CHARACTER = 7.8; // approximate width of a label's character, in pixels

/** Open the dialog with the server's answer; `layers` are weights by layer, head, target token and source token. */
export function showAttention({ layers, source_tokens, target_tokens }, name) {
  const found = { layers, sources: source_tokens.map(readable), targets: target_tokens.map(readable) };
  const dialog = find("#attention");
  const last = layers.length - 1;
  const view = { layer: last, head: "mean" };
  const picture = make("div", { className: "picture", tabIndex: 0 });
  picture.setAttribute("role", "region");
  picture.setAttribute("aria-label", "Picture of the weights");
  const readout = make("p", { className: "readout" });
  const inWords = make("ul");
  const draw = () => {
    const weights = weightsOf(layers[view.layer], view.head);
    picture.replaceChildren(heatMap(found, weights, readout));
    inWords.replaceChildren(...describe(found, weights).map((text) => make("li", {}, text)));
    readout.textContent = "Each row is a token of the translation; the stronger a cell, the more attention its source token gets.";
  };
  const numbers = layers.map((_, layer) => [layer, String(layer)]);
  const heads = [["mean", "mean"], ...layers[0].map((_, head) => [head, String(head)])];
  const choices = make(
    "div",
    { className: "choices" },
    segments("layer", "Layer, counted from 0", numbers, last, (layer) => ((view.layer = layer), draw())),
    segments("head", "Head", heads, "mean", (head) => ((view.head = head), draw())),
  );
  const details = make("details", {}, make("summary", {}, "In words"), inWords);
  find("h2", dialog).textContent = `Attention of ${name}`;
  find(".body", dialog).replaceChildren(choices, readout, picture, details);
  draw();
  dialog.showModal();
}

/** A token for readers: without the sign for a space, and with a hyphen if it continues a word. */
function readable(token) {
  if (token === "</s>") return "end";
  return token.startsWith("▁") ? token.slice(1) || "␣" : token.replace(/^(?=\p{L})/u, "‑");
}

const weightsOf = (heads, head) => (head === "mean" ? meanOfHeads(heads) : heads[head]);

export function meanOfHeads(heads) {
  const mean = (row, column) => heads.reduce((sum, each) => sum + each[row][column], 0) / heads.length;
  return heads[0].map((weights, row) => weights.map((_, column) => mean(row, column)));
}

function heatMap({ sources, targets }, weights, readout) {
  const longest = (tokens) => Math.max(...tokens.map((token) => token.length)) * CHARACTER + 12;
  const [left, top] = [longest(targets), longest(sources)];
  const [wide, high] = [(innerWidth * 0.94 - 56 - left) / sources.length, (innerHeight * 0.54 - top) / targets.length];
  const size = Math.max(LEAST_CELL, Math.min(CELL, wide, high));
  const [width, height] = [left + sources.length * size + 4, top + targets.length * size + 4];
  const labels = [
    ...sources.map((token, column) => {
      const [x, y] = [left + (column + 0.5) * size, top - 8];
      return makeSvg("text", { x, y, transform: `rotate(-90 ${x} ${y})`, "dominant-baseline": "central" }, token);
    }),
    ...targets.map((token, row) => {
      const y = top + (row + 0.5) * size;
      return makeSvg("text", { x: left - 8, y, "text-anchor": "end", "dominant-baseline": "central" }, token);
    }),
  ];
  const cells = weights.flatMap((rowWeights, row) =>
    rowWeights.map((weight, column) => {
      const side = { width: size - 2, height: size - 2, rx: 4 };
      const place = { x: left + column * size + 1, y: top + row * size + 1, ...side };
      const colour = makeSvg("rect", { ...place, class: "weight", "fill-opacity": weight });
      const cell = makeSvg("g", {}, makeSvg("rect", place), colour);
      cell.addEventListener("pointerenter", () => {
        readout.textContent = `“${targets[row]}” looks at “${sources[column]}”: ${number(weight, 3)}`;
      });
      return cell;
    }),
  );
  const label = "Heat map of the attention; “In words” below says the same";
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label };
  return makeSvg("svg", attributes, ...labels, ...cells);
}

function describe({ sources, targets }, weights) {
  return targets.map((target, row) => {
    const ranked = weights[row].map((weight, column) => [weight, sources[column]]).sort(([a], [b]) => b - a);
    const most = ranked.slice(0, 3).filter(([weight]) => weight >= 0.05);
    const said = most.map(([weight, source]) => `“${source}” (${number(weight, 2)})`);
    return `“${target}” looks at ${said.join(", ")}`;
  });
}
