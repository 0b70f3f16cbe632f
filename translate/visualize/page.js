// The page of a picture made of panels: charts, which Vega-Lite draws, and tables.

let drawn = []; // what Vega has drawn

async function drawChart(place, { title, spec }) {
  const width = spec.usermeta.grows ? { width: "container" } : {};
  const config = data.themes[theme()];
  const options = { ...spec.usermeta.embedOptions, config, ast: true, actions: false, tooltip: { theme: theme() } };
  const drawing = await vegaEmbed(place, { ...spec, ...width, description: `${title}: the tables below have the numbers` }, options);
  place.firstElementChild.setAttribute("aria-hidden", "true");
  return drawing;
}

/** Panels in rows, each as wide as its share of the row. */
async function drawEverything() {
  drawn.splice(0).forEach((each) => each.finalize());
  const waiting = [];
  const panels = data.panels.map((panel) => {
    const { spec, title, note } = panel;
    const grows = Boolean(spec && spec.usermeta.grows);
    const chart = make("div", { class: grows ? "chart" : null });
    const content = spec ? makeScrollable(chart, title) : makeScrollable(plainTable(panel), title);
    content.classList.toggle("whole", Boolean(spec));
    if (spec && canDraw) waiting.push(() => drawChart(chart, panel));
    const section = make("section", { class: "panel" }, make("h2", {}, title), make("p", { class: "note" }, note), content);
    section.style.flex = grows ? `1 1 ${spec.width}px` : `0 1 ${spec ? "auto" : "max-content"}`;
    return section;
  });
  const rows = Array.from({ length: Math.ceil(panels.length / data.columns) }, (_, row) =>
    make("div", { class: "row" }, ...panels.slice(row * data.columns, (row + 1) * data.columns)));
  charts.replaceChildren(...rows);
  drawn = await Promise.all(waiting.map((draw) => draw()));
  main.dataset.drawn = theme();
}

/** The numbers of a chart, or a table that is shown as one. */
function plainTable({ title, header, rows }) {
  const isNumber = (text) => /^[+−-]?\d[\d.,e+−-]*( %| ± [\d.]+)?$/.test(text);
  const write = (cell) => [].concat(cell).map((part, place) => (place % 2 ? make("mark", {}, part) : part));
  const attributes = (cell, column) => ({ class: isNumber(cell) ? "number" : null, "data-header": header[column + 1] });
  return make("table", { class: rows.some((row) => row.some(Array.isArray)) ? "plain texts" : "plain" },
    make("caption", { class: "hidden" }, title),
    make("thead", {}, make("tr", {}, ...header.map((text) => (text ? make("th", { scope: "col" }, text) : make("td"))))),
    make("tbody", {}, ...rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first),
      ...others.map((cell, column) => make("td", attributes(cell, column), ...write(cell)))))));
}

function numbersOf({ title, spec }) {
  const { header, fields } = spec.usermeta;
  const nothing = fields.includes("value") ? "masked" : "none";
  const write = (value) => (typeof value === "number" ? shortNumber(value) : value ?? nothing);
  const rows = spec.data.values.map((values) => fields.flatMap((field) => values[field] ?? [null]).map(write));
  return plainTable({ title, header, rows });
}

const withNumbers = data.panels.filter((panel) => panel.spec);
const details = make("details", {}, make("summary", {}, "The numbers as tables"));
details.addEventListener("toggle", () => { // made only when somebody opens it
  if (details.open && details.children.length === 1) {
    details.append(...withNumbers.flatMap((panel) => [make("h3", {}, panel.title), makeScrollable(numbersOf(panel), panel.title)]));
  }
});
const charts = make("div", { class: "rows" });
const hint = "Point at a chart to read its numbers."
  + (data.canZoom ? " Drag to move, turn the wheel with Ctrl to zoom, and click twice to return." : "");
const missing = "The charts need Vega-Lite from cdn.jsdelivr.net, which could not be loaded. Pages that are made with the"
  + " extra `pictures` contain it.";
const canDraw = Boolean(window.vegaEmbed);
makeNotes([...data.paragraphs, ...(withNumbers.length ? [canDraw ? hint : missing] : [])]);
main.append(charts, ...(withNumbers.length ? [details] : []));
drawEverything();
