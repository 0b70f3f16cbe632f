// The page of a picture made of panels: charts, which Vega-Lite draws, and tables.

const main = document.getElementById("main");
const state = Object.fromEntries(data.switches.map(({ name, options }) => [name, options[0][0]]));
let drawn = []; // what Vega has drawn

/** Radio buttons that set a parameter of all charts. */
function makeSwitch({ name, title, options }) {
  const set = (value) => {
    state[name] = value;
    drawn.forEach(({ view }) => view.signal(name, value).runAsync());
  };
  return make("fieldset", {}, make("legend", {}, title), make("div", { class: "segments" }, ...options.map(([value, text]) =>
    make("label", {}, make("input", { type: "radio", name, value, checked: state[name] === value, change: () => set(value) }),
      make("span", {}, text)))));
}

async function drawChart(place, { title, spec }) {
  const params = Object.entries(state).map(([name, value]) => ({ name, value }));
  const width = spec.usermeta.grows ? { width: "container" } : {};
  const config = data.themes[theme()];
  const options = { ...spec.usermeta.embedOptions, config, ast: true, actions: false, tooltip: { theme: theme() } };
  const drawing = await vegaEmbed(place, { ...spec, ...width, params, description: `${title}: the tables below have the numbers` }, options);
  place.firstElementChild.setAttribute("aria-hidden", "true");
  return drawing;
}

async function drawEverything() {
  drawn.splice(0).forEach((each) => each.finalize());
  const waiting = [];
  const panels = data.panels.map((panel) => {
    const section = make("section", { class: "panel" }, make("h2", {}, panel.title), make("p", { class: "note" }, panel.note));
    if (!panel.spec) {
      section.append(scrollable(plainTable(panel), panel.title));
      return section;
    }
    const { grows } = panel.spec.usermeta;
    const chart = make("div", { class: grows ? "chart" : "" });
    section.append(make("div", { class: "scroll whole", tabindex: "0", role: "group", "aria-label": panel.title }, chart));
    section.style.flex = grows ? `1 1 ${panel.spec.width}px` : "0 1 auto";
    waiting.push(() => drawChart(chart, panel));
    return section;
  });
  const rows = [];
  for (let first = 0; first < panels.length; first += data.columns) {
    const row = make("div", { class: "row" }, ...panels.slice(first, first + data.columns));
    const specs = data.panels.slice(first, first + data.columns).map(({ spec }) => spec).filter(Boolean);
    const width = specs.reduce((sum, spec) => sum + spec.width + 32, 0);
    row.style.flex = specs.some((spec) => spec.usermeta.grows) ? `1 1 ${width}px` : "0 1 max-content";
    rows.push(row);
  }
  charts.replaceChildren(...rows);
  drawn = await Promise.all(waiting.map((draw) => draw()));
  main.dataset.drawn = theme();
}

/** The numbers of a chart, or a table that is shown as one. */
function plainTable({ title, header, rows }) {
  const isNumber = (text) => /^[−\d][\d.,e+−-]*( %)?$/.test(text);
  return make("table", { class: "plain" },
    make("caption", { class: "hidden" }, title),
    make("thead", {}, make("tr", {}, ...header.map((text) => (text ? make("th", { scope: "col" }, text) : make("td"))))),
    make("tbody", {}, ...rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first),
      ...others.map((text) => make("td", isNumber(text) ? { class: "number" } : {}, text))))));
}

function numbersOf({ title, spec }) {
  const { header, fields } = spec.usermeta;
  const nothing = fields.includes("value") ? "masked" : "none";
  const write = (value) => (typeof value === "number" ? shortNumber(value) : value ?? nothing);
  const rows = spec.data.values.map((values) => fields.flatMap((field) => values[field] ?? [null]).map(write));
  return plainTable({ title, header, rows });
}

function scrollable(element, label) {
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, element);
}

const withNumbers = data.panels.filter((panel) => panel.spec);
const details = make("details", {}, make("summary", {}, "The numbers as tables"));
details.addEventListener("toggle", () => { // made only when somebody opens it
  if (details.open && details.children.length === 1) {
    details.append(...withNumbers.flatMap((panel) => [make("h3", {}, panel.title), scrollable(numbersOf(panel), panel.title)]));
  }
});
const charts = make("div", { class: "rows" });
const hint = "Point at a chart to read its numbers."
  + (data.canZoom ? " Drag to move, turn the wheel with Ctrl to zoom, and click twice to return." : "");
document.getElementById("about").append(...data.paragraphs.map((text) => make("p", { class: "note" }, text)));
if (withNumbers.length) document.getElementById("about").append(make("p", { class: "note" }, hint));
if (data.switches.length) main.append(make("div", { class: "choices" }, ...data.switches.map(makeSwitch)));
main.append(charts, ...(withNumbers.length ? [details] : []));
drawEverything();
