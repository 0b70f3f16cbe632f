// Search settings: the run's own, unless changed here.

import { find, make, number, segments } from "./elements.js";

const forBeam = ({ search }) => search === "beam";
const forSampling = ({ search }) => search === "sample";
const SETTINGS = [
  { key: "search", label: "Search", choices: [["beam", "Beam"], ["sample", "Sampling"]],
    hint: "Beam looks for the most probable translation; sampling draws one at random." },
  { key: "beam_size", label: "Beam size", min: 1, max: 20, step: 1, when: forBeam,
    hint: "Hypotheses kept at each step; 1 is greedy search: fast, slightly worse." },
  { key: "n_best", label: "Alternatives", min: 1, max: 10, step: 1,
    hint: "Translations listed per sentence." },
  { key: "length_penalty", label: "Length penalty", min: 0, max: 3, step: 0.1,
    hint: "Larger values favour longer translations." },
  { key: "temperature", label: "Temperature", min: 0.1, max: 2, step: 0.1, when: forSampling,
    hint: "Lower is more careful, higher more varied." },
  { key: "top_k", label: "Top k", min: 0, max: 100, step: 1, when: forSampling,
    hint: "Draw from the k most probable tokens; 0 allows all." },
  { key: "top_p", label: "Top p", min: 0.05, max: 1, step: 0.05, when: forSampling,
    hint: "Draw from the most probable tokens, up to this total probability." },
  { key: "seed", label: "Seed", min: 0, max: 100, step: 1, when: forSampling,
    hint: "The same seed draws the same translations." },
  { key: "no_repeat_ngram", label: "No repeated n-grams", min: 0, max: 8, step: 1,
    hint: "No sequence of n tokens occurs twice; 0 turns it off." },
  { key: "repetition_penalty", label: "Repetition penalty", min: 1, max: 3, step: 0.1,
    hint: "Makes repeated tokens less probable; 1 turns it off." },
  { key: "max_length_factor", label: "Maximum length", min: 0.5, max: 4, step: 0.5,
    hint: "Target tokens per source token, plus a constant." },
];
const ALTERNATIVES = 4; // listed by default; the beam has them anyway

let changed = JSON.parse(localStorage.getItem("settings") ?? "{}");

/** A model's own settings with the changes made here. */
export function settingsOf(model) {
  const settings = { ...model.settings, n_best: ALTERNATIVES, ...changed };
  if (settings.mbr && settings.mbr !== "none") settings.n_best = 1;
  if (forBeam(settings)) settings.n_best = Math.min(settings.n_best, settings.beam_size);
  return settings;
}

/** The part of a request that says which model translates, and between which languages. */
export const languagesOf = ({ name, source_language, target_language }) =>
  ({ model: name, from: source_language, to: target_language });

let glossary = null; // its `name`, `terms`, and the languages that it is from and to

/** Use terms from a file in requests for these languages; null: none. */
export const setGlossary = (given) => (glossary = given);

const hasGlossary = (model) => glossary?.from === model.source_language && glossary.to === model.target_language;

/** What of a request identifies its translations. */
export const keyOf = ({ terminology, ...request }) => JSON.stringify([request, terminology && glossary.number]);

/** The terms of a file: lines of a term and its translation, with a tab, a comma or a semicolon between them. */
export function readTerms(text) {
  const lines = text.replace("\ufeff", "").split(/\r?\n/);
  const mark = ["\t", ";", ","].find((each) => lines.find((line) => line.trim())?.includes(each)) ?? "\t";
  const column = mark === "\t" ? /([^\t]*)(?:\t|$)/y : new RegExp(`("(?:[^"]|"")*"|[^${mark}]*)(?:${mark}|$)`, "y");
  const terms = Object.create(null); // a term may be “constructor”
  lines.forEach((line, index) => {
    if (!line.trim() || line.startsWith("#")) return;
    const columns = [];
    for (column.lastIndex = 0; column.lastIndex < line.length; ) {
      const found = column.exec(line);
      if (!found) break;
      columns.push(mark !== "\t" && found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1]);
    }
    const [term, target] = columns.map((each) => each.trim());
    const where = `Line ${index + 1} of the glossary`;
    if (![2, 4].includes(columns.length) || !term || !target) throw new Error(`${where} is not a term and its translation: ${line}`);
    if ((terms[term] ??= target) !== target) throw new Error(`${where} has another translation of “${term}”. Keep one.`);
  });
  if (!Object.keys(terms).length) throw new Error("The glossary has no terms.");
  return terms;
}

/** The part of a request that depends on model and settings. */
export function requestFor(model) {
  const settings = settingsOf(model);
  const options = Object.fromEntries(Object.keys(changed).map((key) => [key, settings[key]]));
  delete options.n_best;
  const terms = hasGlossary(model) ? { terminology: glossary.terms } : {};
  return { ...languagesOf(model), options, n_best: settings.n_best, ...terms };
}

/** The most important settings, in a few words. */
export function describeSettings(model) {
  const settings = settingsOf(model);
  const search = forBeam(settings) ? `beam ${settings.beam_size}` : `sampling at temperature ${settings.temperature}`;
  const terms = glossary && !hasGlossary(model) ? " · the glossary is for other languages" : "";
  return `${search} · length penalty ${settings.length_penalty}${terms}`;
}

/** Draw the controls with the values of `model`; `onChange` is called after each change. */
export function showSettings(form, model, onChange) {
  const settings = settingsOf(model);
  const change = (key, value, redraw) => {
    changed = { ...changed, [key]: value };
    localStorage.setItem("settings", JSON.stringify(changed));
    if (redraw) (showSettings(form, model, onChange), find(`[name="${key}"]:checked`, form).focus());
    else reset.disabled = false;
    onChange();
  };
  const reset = make("button", { type: "button", className: "button" }, "Reset");
  reset.disabled = !Object.keys(changed).length;
  reset.addEventListener("click", () => {
    changed = {};
    localStorage.removeItem("settings");
    showSettings(form, model, onChange);
    onChange();
  });
  const controls = SETTINGS.filter(({ when }) => !when || when(settings)).map((setting) => {
    const { key, label, hint, choices } = setting;
    const note = make("span", { className: "note", id: `${key}-hint` }, hint);
    if (choices) {
      const chosen = segments(key, label, choices, settings[key], (value) => change(key, value, true));
      return make("div", { className: "setting" }, chosen, note);
    }
    const { min, max, step } = setting;
    const input = make("input", { type: "range", name: key, min, max, step });
    input.value = settings[key];
    input.setAttribute("aria-describedby", note.id);
    const shown = make("output", {}, display(settings[key]));
    input.addEventListener("input", () => (shown.textContent = display(Number(input.value))));
    input.addEventListener("change", () => change(key, Number(input.value)));
    return make("div", { className: "setting" }, make("label", {}, make("span", {}, label, shown), input), note);
  });
  const title = make("h2", {}, "Search settings");
  const bar = make("div", { className: "bar" }, title, reset);
  form.replaceChildren(bar, make("div", { className: "grid" }, ...controls));
}

const display = (value) => number(value, Number.isInteger(value) ? 0 : Number.isInteger(value * 10) ? 1 : 2);
