// The page of a picture made of panels: matrices, curves, maps, links between words, tables.

const MOST_TABLE_CELLS = 1200; // of a matrix drawn as a table; a larger one is painted, with the table on demand

function drawEverything() {
  const main = document.getElementById("main");
  main.classList.toggle("side-by-side", data.columns > 1);
  main.replaceChildren(...data.panels.map((panel) => {
    const draw = { matrix: drawMatrix, curves: drawCurves, points: drawPoints, links: drawLinks, table: drawTable }[panel.kind];
    const note = panel.note ? [make("p", { class: "note" }, panel.note)] : [];
    const isWide = panel.kind === "points" || panel.kind === "table";
    return make("section", { class: isWide ? "panel wide" : "panel" }, make("h2", {}, panel.title), ...note, ...draw(panel));
  }));
}

// ------------------------------------------------------------------------------------------------------- matrices

function drawMatrix(panel) {
  const numbers = panel.values.flat().filter((value) => value !== null);
  const limit = Math.max(...numbers.map(Math.abs)) || 1;
  const describe = (row, column) => {
    const value = panel.values[row][column];
    const text = value === null ? "masked" : panel.scale === "visible" ? (value ? "visible" : "not visible") : shortNumber(value);
    return `${panel.row_axis || "row"} “${panel.rows[row] || row}” (${row}),`
      + ` ${panel.column_axis || "column"} “${panel.columns[column] || column}” (${column}): ${text}`;
  };
  const options = { limit, hasMasked: panel.values.some((row) => row.includes(null)) };
  const legend = makeLegend(panel.scale, options);
  if (panel.values.length * panel.values[0].length > MOST_TABLE_CELLS) return [...paintMatrix(panel, limit, describe), legend];
  const readout = makeReadout("Point at a cell, or move to the matrix with Tab and in it with the arrow keys.");
  const text = panel.scale === "visible" ? (value) => [value ? "✓" : "·"]
    : (value) => quietly(value.toFixed(2).replace("-", "−"), Math.abs(value) < 0.005);
  const table = makeMatrixTable({
    caption: `Rows: ${panel.row_axis}. Columns: ${panel.column_axis}.`,
    rows: panel.rows, columns: panel.columns, values: panel.values, scale: panel.scale, limit, text, describe, readout,
  });
  return [...table, legend];
}

/** Ticks at round places of an axis that has labels like 0, 1, 2, …, or at as many labels as have room. */
function tickEvery(count, room) {
  const least = Math.ceil((count * 30) / room);
  return [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 500, 1000].find((step) => step >= least) || least;
}

function paintMatrix(panel, limit, describe) {
  const [height, width] = [panel.values.length, panel.values[0].length];
  const cellWidth = Math.max(2, Math.min(16, Math.floor(560 / width)));
  const cellHeight = Math.max(2, Math.min(16, Math.floor(480 / height)));
  const font = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = font;
  const left = Math.ceil(Math.max(...panel.rows.map((label) => measure.measureText(label).width))) + 30;
  const top = 42;
  const readout = makeReadout("Point at a place, or open the table below.");
  const canvas = makeCanvas(left + width * cellWidth + 12, top + height * cellHeight + 2,
    `${panel.title}: ${height} rows (${panel.row_axis}) and ${width} columns (${panel.column_axis}); the table below has the numbers`,
    (context) => {
      panel.values.forEach((row, y) => row.forEach((value, x) => {
        const place = [left + x * cellWidth, top + y * cellHeight, cellWidth, cellHeight];
        if (value === null) return hatch(context, ...place);
        context.fillStyle = css(colourOf(panel.scale, value, limit));
        context.fillRect(...place);
      }));
      context.strokeStyle = style("--edge");
      context.strokeRect(left - 0.5, top - 0.5, width * cellWidth + 1, height * cellHeight + 1);
      context.font = font;
      context.fillStyle = style("--ink");
      context.textAlign = "right";
      context.textBaseline = "middle";
      for (let y = 0; y < height; y += tickEvery(height, height * cellHeight * 1.6)) {
        context.fillText(panel.rows[y], left - 6, top + (y + 0.5) * cellHeight);
      }
      context.textAlign = "center";
      for (let x = 0; x < width; x += tickEvery(width, width * cellWidth)) {
        context.fillText(panel.columns[x], left + (x + 0.5) * cellWidth, top - 10);
      }
      context.fillStyle = style("--faint");
      context.textAlign = "left";
      context.fillText(panel.column_axis, left, 11);
      context.save();
      context.translate(10, top + height * cellHeight);
      context.rotate(-Math.PI / 2);
      context.fillText(panel.row_axis, 0, 0);
      context.restore();
    });
  canvas.addEventListener("mousemove", (event) => {
    const row = Math.floor((event.offsetY - top) / cellHeight);
    const column = Math.floor((event.offsetX - left) / cellWidth);
    readout.say(row >= 0 && row < height && column >= 0 && column < width ? describe(row, column) : "");
  });
  canvas.addEventListener("mouseleave", () => readout.say(""));
  const table = () => plainTable(panel.title, ["", ...panel.columns],
    panel.values.map((row, y) => [panel.rows[y], ...row.map((value) => (value === null ? "masked" : shortNumber(value)))]));
  return [readout, scrollable(canvas, panel.title), makeDetails("The numbers as a table", table)];
}

function scrollable(element, label) {
  const isTable = element.tagName === "TABLE"; // whose head stays in sight; a drawing is shown in its full height
  return make("div", { class: isTable ? "scroll" : "scroll whole", tabindex: "0", role: "group", "aria-label": label }, element);
}

/** What is made only when somebody opens it. */
function makeDetails(summary, content) {
  const details = make("details", {}, make("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(scrollable(content(), summary));
  });
  return details;
}

// --------------------------------------------------------------------------------------------------------- tables

function plainTable(caption, header, rows) {
  const isNumber = (text) => /^[−\d][\d.,e+−-]*( %)?$/.test(text);
  return make("table", { class: "plain" },
    make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, ...header.map((text) => (text ? make("th", { scope: "col" }, text) : make("td"))))),
    make("tbody", {}, ...rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first),
      ...others.map((text) => make("td", isNumber(text) ? { class: "number" } : {}, text))))));
}

const drawTable = (panel) => [scrollable(plainTable(panel.title, panel.header, panel.rows), panel.title)];

// --------------------------------------------------------------------------------------------------------- curves

/** About `count` round numbers from low to high. */
function roundTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const ticks = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + step * 1e-9; count++) {
    ticks.push(Number((count * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of high / low > 1000 ? [1] : [1, 2, 5]) ticks.push(factor * 10 ** power);
  }
  return ticks.filter((tick) => tick >= low / 1.001 && tick <= high * 1.001);
}

function makeAxis(low, high, room, { isLog = false, apart = 60 } = {}) {
  const [from, to] = isLog ? [Math.log(low), Math.log(high)] : [low, high];
  const span = to - from || 1;
  return {
    at: (value) => ((isLog ? Math.log(value) : value) - from) / span * room,
    ticks: isLog ? logTicks(low, high) : roundTicks(low, high, Math.max(3, Math.round(room / apart))),
  };
}

const padded = (low, high) => (low === high ? [low - (Math.abs(low) || 1) * 0.05, high + (Math.abs(high) || 1) * 0.05]
  : [low - (high - low) * 0.04, high + (high - low) * 0.04]);

/** The frame of a chart with ticks and names of its axes: [svg, group to draw in, x axis, y axis]. */
function makeFrame(panel, xs, ys, { width, height, isLog, label }) {
  const room = { left: 78, right: 24, top: 10, bottom: 48 };
  const x = makeAxis(...padded(Math.min(...xs), Math.max(...xs)), width - room.left - room.right);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const y = makeAxis(...(isLog ? [low / 1.1, high * 1.1] : padded(low, high)), height - room.top - room.bottom, { isLog, apart: 40 });
  const inside = makeSvg("g", { transform: `translate(${room.left},${room.top})` });
  const [plotWidth, plotHeight] = [width - room.left - room.right, height - room.top - room.bottom];
  for (const tick of x.ticks) {
    inside.append(makeSvg("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: 0, y2: plotHeight }),
      makeSvg("text", { x: x.at(tick), y: plotHeight + 18, "text-anchor": "middle" }, shortNumber(tick)));
  }
  for (const tick of y.ticks) {
    const at = plotHeight - y.at(tick);
    inside.append(makeSvg("line", { class: "grid", x1: 0, x2: plotWidth, y1: at, y2: at }),
      makeSvg("text", { x: -8, y: at + 4, "text-anchor": "end" }, shortNumber(tick)));
  }
  inside.append(makeSvg("path", { class: "axis", d: `M0 0V${plotHeight}H${plotWidth}` }),
    makeSvg("text", { class: "faint", x: plotWidth, y: plotHeight + 38, "text-anchor": "end" }, panel.x_axis),
    makeSvg("text", { class: "faint", x: -62, y: 0, "text-anchor": "end", transform: "rotate(-90 -62 0)" }, panel.y_axis));
  const svg = makeSvg("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, inside);
  return { svg, inside, xAt: (value) => x.at(value), yAt: (value) => plotHeight - y.at(value), plotWidth, plotHeight, room };
}

function drawCurves(panel) {
  const drawable = (value) => value !== null && (!panel.is_log || value > 0);
  const xs = panel.series.flatMap((series) => series.x.filter((_, at) => drawable(series.y[at])));
  const ys = panel.series.flatMap((series) => series.y.filter(drawable));
  if (!xs.length) return [make("p", {}, "There is nothing to draw yet.")];
  const frame = makeFrame(panel, xs, ys, {
    width: 620, height: 290, isLog: panel.is_log,
    label: `${panel.title}: ${panel.y_axis} by ${panel.x_axis}, ${panel.series.length} curves; the table below has the numbers`,
  });
  const keys = panel.series.map((series, number) => {
    let path = "";
    let pen = "M";
    series.x.forEach((x, at) => {
      if (!drawable(series.y[at])) { pen = "M"; return; }
      path += `${pen}${frame.xAt(x).toFixed(2)} ${frame.yAt(series.y[at]).toFixed(2)}`;
      pen = "L";
      if (series.x.length <= 60) {
        frame.inside.append(makeSvg("circle", { cx: frame.xAt(x), cy: frame.yAt(series.y[at]), r: 2.6, fill: seriesColour(number) }));
      }
    });
    frame.inside.append(makeSvg("path", { ...seriesLook(number), "stroke-width": 2.2, fill: "none", d: path, "stroke-linejoin": "round" }));
    return make("li", {}, makeKey(number), series.name);
  });
  const places = [...new Set(xs)].sort((first, second) => first - second);
  const readout = makeReadout("Point at the curves, or move the slider, to read their values.");
  const cursor = makeSvg("line", { class: "cursor", y1: 0, y2: frame.plotHeight, x1: 0, x2: 0, visibility: "hidden" });
  frame.inside.append(cursor);
  const show = (at) => {
    const x = places[at];
    cursor.setAttribute("x1", frame.xAt(x));
    cursor.setAttribute("x2", frame.xAt(x));
    cursor.setAttribute("visibility", "visible");
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${panel.x_axis} ${shortNumber(x)}`);
    const values = panel.series.flatMap((series) => {
      const place = series.x.indexOf(x);
      return place >= 0 && series.y[place] !== null ? [`${series.name} ${shortNumber(series.y[place])}`] : [];
    });
    readout.say(`${panel.x_axis} ${shortNumber(x)}: ${values.join(", ")}`);
  };
  const slider = make("input", { type: "range", min: 0, max: places.length - 1, value: places.length - 1, input: () => show(Number(slider.value)) });
  frame.svg.addEventListener("mousemove", (event) => {
    const scale = frame.svg.viewBox.baseVal.width / frame.svg.getBoundingClientRect().width;
    const at = (event.clientX - frame.svg.getBoundingClientRect().left) * scale - frame.room.left;
    let nearest = 0;
    places.forEach((x, place) => {
      if (Math.abs(frame.xAt(x) - at) < Math.abs(frame.xAt(places[nearest]) - at)) nearest = place;
    });
    show(nearest);
  });
  const table = () => plainTable(panel.title, [panel.x_axis, ...panel.series.map((series) => series.name)],
    places.map((x) => [shortNumber(x), ...panel.series.map((series) => {
      const place = series.x.indexOf(x);
      return place >= 0 && series.y[place] !== null ? shortNumber(series.y[place]) : "";
    })]));
  return [
    make("ul", { class: "keys" }, ...keys), readout, scrollable(frame.svg, panel.title),
    make("label", { class: "range" }, panel.x_axis, slider), makeDetails("The numbers as a table", table),
  ];
}

// ----------------------------------------------------------------------------------------------------------- maps

const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8Z", "M0-5L5 4H-5Z", "M0-5L5 0L0 5L-5 0Z"];

function drawPoints(panel) {
  const groups = [...new Set(panel.points.map((point) => point.group))];
  const frame = makeFrame(panel, panel.points.map((point) => point.x), panel.points.map((point) => point.y), {
    width: 1040, height: 760, isLog: false, label: `${panel.title}: ${panel.points.length} words; the table below names them`,
  });
  frame.svg.setAttribute("role", "group"); // its points can be reached and named one by one
  const readout = makeReadout("Point at a word, or move to the map with Tab and from word to word with the arrow keys.");
  const look = (chosen) => {
    marks.forEach((mark) => mark.classList.toggle("current", mark === chosen));
    const point = chosen && panel.points[marks.indexOf(chosen)];
    readout.say(point ? `${point.label} (${point.group}). ${point.note}` : "");
    // In front of its neighbours; an element that is moved would lose the focus.
    if (chosen && chosen !== document.activeElement && chosen.nextSibling) frame.inside.append(chosen);
  };
  const marks = panel.points.map((point) => {
    const number = groups.indexOf(point.group);
    const place = `translate(${frame.xAt(point.x).toFixed(1)},${frame.yAt(point.y).toFixed(1)})`;
    const label = { right: [8, 4, "start"], left: [-8, 4, "end"], above: [0, -8, "middle"], below: [0, 17, "middle"] }[point.anchor];
    return makeSvg("g", {
      transform: place, role: "img", "aria-label": `${point.label} (${point.group}). ${point.note}`,
      mouseenter: (event) => look(event.currentTarget), focus: (event) => look(event.currentTarget),
    }, makeSvg("path", { d: SHAPES[number % SHAPES.length], fill: seriesColour(number) }),
    makeSvg("text", { x: label[0], y: label[1], "text-anchor": label[2] }, point.label));
  });
  frame.inside.append(...marks);
  // From left to right, whatever the height.
  const order = marks.map((mark, at) => [panel.points[at].x, mark]).sort(([first], [second]) => first - second);
  order.forEach(([, mark], at) => { mark.setAttribute("tabindex", at ? "-1" : "0"); });
  frame.svg.addEventListener("keydown", (event) => {
    const at = order.findIndex(([, mark]) => mark === document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    const next = order[(at + step + order.length) % order.length][1];
    order.forEach(([, mark]) => mark.setAttribute("tabindex", mark === next ? "0" : "-1"));
    next.focus();
  });
  const keys = groups.map((group, number) => make("li", {}, makeSvg("svg", { width: 16, height: 14, viewBox: "-8 -7 16 14", "aria-hidden": "true" },
    makeSvg("path", { d: SHAPES[number % SHAPES.length], fill: seriesColour(number) })), group));
  const table = () => plainTable(panel.title, ["Word", "Of", panel.x_axis, panel.y_axis, "Note"],
    panel.points.map((point) => [point.label, point.group, shortNumber(point.x), shortNumber(point.y), point.note]));
  return [make("ul", { class: "keys" }, ...keys), readout, scrollable(frame.svg, panel.title), makeDetails("The words as a table", table)];
}

// ---------------------------------------------------------------------------------------------------------- links

function drawLinks(panel) {
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = '16px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';
  const spread = (words) => {
    let end = 6;
    return words.map((word) => {
      const width = measure.measureText(word).width + 4;
      const middle = end + width / 2;
      end += width + 18;
      return { word, middle, end };
    });
  };
  const [above, below] = [spread(panel.source), spread(panel.target)];
  const width = Math.ceil(Math.max(...[...above, ...below].map((each) => each.end), 60));
  const text = panel.links.map(([source, target, weight]) =>
    `${panel.source[source]} – ${panel.target[target]} (${weight.toFixed(2)})`).join(", ");
  const svg = makeSvg("svg", { class: "chart", width, height: 132, viewBox: `0 0 ${width} 132`, role: "img", "aria-label": `Links: ${text}` });
  svg.style.fontSize = "16px";
  for (const [source, target, weight] of panel.links) {
    const line = makeSvg("line", {
      x1: above[source].middle, x2: below[target].middle, y1: 30, y2: 102, stroke: style("--accent"),
      "stroke-width": 1 + 2.5 * weight, "stroke-opacity": 0.45 + 0.55 * weight,
    });
    line.append(makeSvg("title", {}, `${panel.source[source]} – ${panel.target[target]}: ${weight.toFixed(4)}`));
    svg.append(line);
  }
  above.forEach((each) => svg.append(makeSvg("text", { x: each.middle, y: 22, "text-anchor": "middle" }, each.word)));
  below.forEach((each) => svg.append(makeSvg("text", { x: each.middle, y: 120, "text-anchor": "middle" }, each.word)));
  const table = () => plainTable(panel.title, ["Source word", "Target word", "Weight"],
    panel.links.map(([source, target, weight]) => [panel.source[source], panel.target[target], weight.toFixed(4)]));
  return [scrollable(svg, panel.title), makeDetails("The links as a table", table)];
}

document.getElementById("about").append(...data.paragraphs.map((text) => make("p", { class: "note" }, text)));
drawEverything();
