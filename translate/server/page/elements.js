// Elements of the page. Texts become text nodes: nothing typed by a user or written by a model is parsed as HTML.

export const find = (selector, inside = document) => inside.querySelector(selector);

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const icon = (name) => makeSvg("svg", {}, makeSvg("use", { href: `#icon-${name}` }));

/** A text as spans of words, numbered from 0, and the white space between them. */
export function wordSpans(text, decorate = () => "") {
  const parts = text.split(/(\S+)/);
  return parts.map((part, place) => {
    if (place % 2 === 0) return part;
    const word = make("span", { className: `word ${decorate((place - 1) / 2)}` }, part);
    word.dataset.word = (place - 1) / 2;
    return word;
  });
}

/** A row of radio buttons; `choices` are pairs of value and label. */
export function segments(name, legend, choices, chosen, onChoice) {
  const labels = choices.map(([value, label]) => {
    const radio = make("input", { type: "radio", name, value, checked: value === chosen });
    radio.addEventListener("change", () => onChoice(value));
    return make("label", {}, radio, make("span", {}, label));
  });
  return make("fieldset", { className: "segments" }, make("legend", {}, legend), make("div", {}, ...labels));
}

export const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");

export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

const knownLocale = (code) => {
  try {
    return new Intl.Locale(code.replaceAll("_", "-"));
  } catch {
    return null;
  }
};

/** A code as browsers take it: `de-Latn` for NLLB's `deu_Latn`, and `und` for one that they do not know. */
export const locale = (code) => String(knownLocale(code) ?? "und");

export const languageName = (code) => {
  const full = knownLocale(code);
  if (!full) return code;
  const plain = new Intl.Locale(full.language, { region: full.region });
  const isUsual = plain.maximize().script === full.maximize().script; // German in Latin letters is German
  return new Intl.DisplayNames(["en"], { type: "language" }).of(String(isUsual ? plain : full));
};

/** Show a language in a heading: its name, or a choice if there are several. */
export function showLanguage(heading, codes, chosen, label, onChoice) {
  if (codes.length < 2) return heading.replaceChildren(languageName(chosen));
  const select = find("select", heading) ?? make("select", { ariaLabel: label });
  const names = codes.map((code) => [languageName(code), code]).sort();
  select.replaceChildren(...names.map(([name, value]) => make("option", { value }, name)));
  select.value = chosen;
  select.onchange = () => onChoice(select.value);
  if (!heading.contains(select)) heading.replaceChildren(make("span", { className: "picker" }, select));
}

/** Each condition in plain words, from the server. */
export const CONDITIONS = {};

const MOST_CHARACTERS = 20; // unknown ones that a warning lists

/** A record's conditions; unknown characters are one, even if bytes can spell them. */
export const conditionsOf = ({ conditions, unknown_characters }) =>
  unknown_characters ? [...new Set([...conditions, "unspellable"])] : conditions;

/** Fill a list with the conditions of translations in plain words; `unit`: what to count, such as "line". */
export function showConditions(list, records, unit) {
  const counts = {};
  for (const name of records.flatMap(conditionsOf)) counts[name] = (counts[name] ?? 0) + 1;
  const characters = records.flatMap(({ unknown_characters }) => [...(unknown_characters ?? "")]);
  const unknown = [...new Set(characters)].slice(0, MOST_CHARACTERS).join(" ");
  showWarnings(list, describeConditions(counts, records.length > 1 ? unit : "", unknown));
}

/** Conditions in plain words, from their counts, each with the number of `unit` affected, if given. */
export function describeConditions(counts, unit = "", unknown = "") {
  return Object.entries(counts).map(([name, count]) => {
    const which = name === "unspellable" && unknown ? ` (${unknown}):` : ":";
    return (CONDITIONS[name] ?? name).replace(":", () => which) + (unit && ` In ${plural(count, unit)}.`);
  });
}

/** Fill a list with warnings. */
export function showWarnings(list, texts) {
  list.replaceChildren(...texts.map((text) => make("li", {}, icon("warning"), make("span", {}, text))));
}
