// The page: input, models, and the connections between its parts.

import { call, onTokenNeeded } from "./api.js";
import { CONDITIONS, find, locale, make, number, plural, showLanguage, wordSpans } from "./elements.js";
import { setUpFiles } from "./files.js";
import { forgetLatest, keepSoon, setUpHistory } from "./history.js";
import { Pane } from "./pane.js";
import { describeSettings, keyOf, readTerms, requestFor, setGlossary, showSettings } from "./settings.js";
import { splitSentences } from "./words.js";

const TYPING_PAUSE = 250; // milliseconds without a key before a text is translated

const source = find("#source");
const mirror = find(".mirror"); // below the text area, with the same text: sets its height and shows highlights
const panes = [];
let sentences = [];
let controller = new AbortController();
let typing = 0;

const page = {
  panes,
  models: [],
  requestFor(model) {
    const request = requestFor(model);
    return { request, key: keyOf(request) };
  },
  /** Mark the words of the second pane that are not in the first. */
  otherText(pane, index) {
    const isCompared = pane === panes[1] && panes[0].isComplete;
    return isCompared ? panes[0].sentences[index]?.element.textContent : undefined;
  },
  refresh() {
    const [first, second] = panes;
    const { source_language } = first.model;
    if (second && !(source_language in second.model.directions)) return compare(false);
    second?.choose(second.model.name, source_language);
    describe();
    translate();
  },
  leave: (pane) => pane === panes[1] && compare(false),
  announce: (text) => (find("#status").textContent = text),
  /** Mark words that belong together on both sides; null marks none. */
  light(light) {
    for (const word of mirror.querySelectorAll(".lit")) word.classList.remove("lit");
    const words = [...(light ? mirror.querySelectorAll(`[data-sentence="${light.index}"] .word`) : [])];
    const marked = words.filter(({ dataset }) => light.sources.has(Number(dataset.word)));
    for (const word of marked) word.classList.add("lit");
    const from = marked.map((word) => word.textContent).join(" ");
    for (const pane of panes) {
      const to = pane.mark(light);
      pane.explain(to && `${from || "no word"} → ${to}`);
    }
  },
};

async function translate() {
  clearTimeout(typing);
  forgetLatest();
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  drawSource();
  if (!sentences.length) return panes.forEach((pane) => pane.clear());
  await Promise.all(panes.map((pane) => pane.translate(sentences, signal)));
  if (signal.aborted || !panes[0].isComplete) return;
  panes[1]?.sentences.forEach((sentence) => sentence.record && panes[1].draw(sentence));
  const { name: model, source_language: from, target_language: to } = panes[0].model;
  keepSoon({ source: source.value.trim(), translation: panes[0].text.trim(), model, from, to, time: Date.now() });
  page.announce(panes[0].text);
}

/** Split the source into sentences, and write them and their words into the mirror. */
function drawSource() {
  const text = source.value;
  const parts = [];
  let end = 0;
  sentences = splitSentences(text, locale(panes[0].model.source_language)).map((sentence, index) => {
    const gap = text.slice(end, sentence.start);
    const element = make("span", {}, ...wordSpans(text.slice(sentence.start, sentence.end)));
    element.dataset.sentence = index;
    parts.push(gap, element);
    end = sentence.end;
    return { ...sentence, gap: index && !gap ? " " : gap };
  });
  mirror.replaceChildren(...parts, `${text.slice(end)}\n`);
  find("#clear").hidden = !text;
  find("#source-facts").textContent = text ? plural(text.length, "character") : "";
}

/** Highlight a source word and the words that belong to it; without a word, none. */
function lightSource(word) {
  if (!word) return page.light(null);
  const index = Number(word.parentElement.dataset.sentence);
  page.light({ index, sources: new Set([Number(word.dataset.word)]) });
}

function wordAtCursor() {
  const texts = document.createTreeWalker(mirror, NodeFilter.SHOW_TEXT);
  for (let end = 0; texts.nextNode(); ) {
    const { length, parentElement } = texts.currentNode;
    end += length;
    if (end >= source.selectionStart && parentElement.matches(".word")) return parentElement;
  }
  return null;
}

/** Show languages and settings of the chosen models. */
function describe() {
  const { source_language, directions, name, engine, step, parameters } = panes[0].model;
  const chooseSource = (code) => (panes[0].choose(panes[0].model.name, code), page.refresh());
  for (const heading of ["#source-language", "#file-source"]) {
    showLanguage(find(heading), Object.keys(directions), source_language, "Source language", chooseSource);
  }
  source.lang = locale(source_language);
  for (const pane of panes) {
    const { name, directions, target_language } = pane.model;
    const chooseTarget = (code) => (pane.choose(name, source_language, code), page.refresh());
    for (const heading of [find(".language", pane.element), ...(pane === panes[0] ? [find("#file-target")] : [])]) {
      showLanguage(heading, directions[source_language], target_language, "Target language", chooseTarget);
    }
    pane.output.lang = locale(target_language);
    find(".leave", pane.element).hidden = pane === panes[0];
  }
  const size = parameters && `${number(parameters / 1e6, 1)} M parameters`;
  const search = engine === "ctranslate2" ? "CTranslate2" : engine;
  const facts = [name, size, step && `step ${number(step)}`, search, describeSettings(panes[0].model)];
  find("#model-facts").textContent = facts.filter(Boolean).join(" · ");
  find("#swap").hidden = !reverse();
  find("#file-model").value = name;
  const others = page.models.filter((model) => model.name !== name && source_language in model.directions);
  find("#compare").hidden = !others.length && panes.length < 2;
  find("#compare").setAttribute("aria-pressed", panes.length > 1);
}

/** The first model for the opposite direction; the same model, if it has it. */
function reverse() {
  const { name, source_language, target_language } = panes[0].model;
  const reverses = page.models.filter((model) => model.directions[target_language]?.includes(source_language));
  return reverses.find((model) => model.name === name) ?? reverses[0];
}

function compare(on) {
  if (on) {
    const { model } = panes[0];
    const other = page.models.find(({ name, directions }) => name !== model.name && model.source_language in directions);
    panes.push(new Pane(page, other.name));
    panes[1].choose(other.name, model.source_language, model.target_language);
    find("#panes").append(panes[1].element);
  } else {
    panes.pop().element.remove();
  }
  find("#text-card").classList.toggle("three", on);
  page.refresh();
}

function showTab(name) {
  for (const each of ["text", "file"]) {
    find(`#${each}-card`).hidden = each !== name;
    find(`#${each}-tab`).setAttribute("aria-pressed", each === name);
  }
}

/** Show an error, or clear it. */
function fail(error) {
  find("#trouble").hidden = !error;
  find("#trouble").textContent = error?.message ?? "";
}

function setText(text) {
  source.value = text;
  translate();
  source.focus();
}

function setUpTheme() {
  const themes = ["auto", "light", "dark"];
  const button = find("#switch-theme");
  const show = (theme) => {
    const name = theme[0].toUpperCase() + theme.slice(1);
    find("span", button).textContent = name;
    button.setAttribute("aria-label", `Colours: ${name}`);
  };
  show(localStorage.getItem("theme") ?? "auto");
  button.addEventListener("click", () => {
    const now = localStorage.getItem("theme") ?? "auto";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "auto") (localStorage.removeItem("theme"), delete document.documentElement.dataset.theme);
    else localStorage.setItem("theme", (document.documentElement.dataset.theme = next));
    show(next);
  });
}

/** Ask for the server's token in a dialog; null if cancelled. */
function askForToken(wasRefused) {
  const dialog = find("#token");
  if (wasRefused) find("#token-note").textContent = "The server refused this token. Try another.";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const field = find("input", dialog);
      resolve(dialog.returnValue === "ok" ? field.value.trim() : null);
      [field.value, dialog.returnValue] = ["", ""];
    }, { once: true });
  });
}

/** Let the user choose a file of terms for the chosen languages, and remove it again. */
function setUpGlossary() {
  const [label, remove] = [find("#glossary"), find("#drop-glossary")];
  let number = 0;
  const use = (glossary) => {
    setGlossary(glossary && { ...glossary, number: (number += 1) });
    const count = glossary && Object.keys(glossary.terms).length;
    find("span", label).textContent = glossary ? `${glossary.name} · ${plural(count, "term")}` : "Glossary";
    remove.hidden = !glossary;
    fail(null);
    page.refresh();
  };
  find("input", label).addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      const { source_language: from, target_language: to } = panes[0].model;
      use({ name: file.name, terms: readTerms(text), from, to });
    } catch (error) {
      fail(error instanceof TypeError ? new Error(`“${file.name}” is not UTF-8 text. Save it as UTF-8.`) : error);
    }
    target.value = ""; // so that the same file can be chosen again
  });
  remove.addEventListener("click", () => (use(null), find("input", label).focus()));
}

function setUpSource() {
  source.addEventListener("input", () => {
    clearTimeout(typing);
    drawSource();
    for (const { output } of panes) output.ariaBusy = "true";
    typing = setTimeout(translate, TYPING_PAUSE);
  });
  source.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) (event.preventDefault(), translate());
  });
  source.addEventListener("keyup", ({ key }) => /^(Arrow|Home|End)/.test(key) && lightSource(wordAtCursor()));
  source.addEventListener("pointermove", ({ clientX, clientY }) => {
    const here = document.elementsFromPoint(clientX, clientY);
    lightSource(here.find((element) => element.matches(".mirror .word")));
  });
  source.addEventListener("pointerleave", () => page.light(null));
  source.addEventListener("blur", () => page.light(null));
  find("#clear").addEventListener("click", () => setText(""));
  find("#swap").addEventListener("click", () => {
    const text = panes[0].text;
    if (panes.length > 1) compare(false);
    const { source_language, target_language } = panes[0].model;
    panes[0].choose(reverse().name, target_language, source_language);
    describe();
    setText(text || source.value);
  });
}

async function start() {
  setUpTheme();
  onTokenNeeded(askForToken);
  for (const dialog of document.querySelectorAll("dialog")) {
    find(".shut", dialog).addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  }
  try {
    const { models, conditions, documents, structured } = await call("models");
    Object.assign(page, { models, documents, structured });
    Object.assign(CONDITIONS, conditions);
    for (const { directions, languages } of page.models) {
      for (const code of languages) {
        const others = languages.filter((other) => other !== code);
        directions[code] = [...new Set([...(directions[code] ?? []), ...others])];
      }
    }
  } catch (error) {
    return fail(error);
  }
  panes.push(new Pane(page, page.models[0].name));
  find("#panes").append(panes[0].element);
  setUpSource();
  const fileModel = find("#file-model");
  fileModel.append(...page.models.map(({ name }) => make("option", { value: name }, name)));
  fileModel.addEventListener("change", () => (panes[0].choose(fileModel.value), page.refresh()));
  const { announce } = page;
  const chosenModel = () => panes[0].model;
  setUpGlossary();
  const { documents, structured } = page;
  setUpFiles({ documents, structured, requestFor: () => requestFor(chosenModel()), chosenModel, onFile: () => showTab("file"), announce, fail });
  setUpHistory((entry) => {
    if (page.models.some(({ name }) => name === entry.model)) panes[0].choose(entry.model, entry.from, entry.to);
    showTab("text");
    source.value = entry.source;
    page.refresh();
    source.focus();
  });
  find("#text-tab").addEventListener("click", () => (showTab("text"), source.focus()));
  find("#file-tab").addEventListener("click", () => showTab("file"));
  find("#compare").addEventListener("click", () => compare(panes.length === 1));
  describe();
  const settings = find("#settings");
  find("#open-settings").addEventListener("click", ({ currentTarget }) => {
    settings.hidden = !settings.hidden;
    currentTarget.setAttribute("aria-expanded", !settings.hidden);
    if (!settings.hidden) showSettings(settings, panes[0].model, page.refresh);
  });
  source.focus();
  if (source.value) translate();
}

start();
