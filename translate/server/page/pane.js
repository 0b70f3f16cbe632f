// One model's translation, sentence by sentence, with alternatives, alignment and conditions.

import { call, events, ServerError } from "./api.js";
import { meanOfHeads, showAttention } from "./attention.js";
import { conditionsOf, find, icon, make, number, plural, showConditions, wordSpans } from "./elements.js";
import { languagesOf } from "./settings.js";
import { changedWords, wordNumbers } from "./words.js";

const MOST_CACHED = 1000;
const cache = new Map(); // records by request, so that only changed sentences are sent

export class Pane {
  sentences = []; // each with its source `text`, the `gap` before it, its `element`, and its `record` once translated
  model = null;

  /** `page` is that of main.js. */
  constructor(page, model) {
    this.page = page;
    this.element = find("#pane").content.firstElementChild.cloneNode(true);
    this.part = (selector) => find(selector, this.element);
    this.output = this.part(".output");
    this.alternatives = this.part(".alternatives");
    this.picker = this.part("select");
    this.picker.addEventListener("change", () => (this.choose(this.picker.value), page.refresh()));
    this.part(".copy").addEventListener("click", () => this.copy());
    this.part(".others").addEventListener("click", () => this.toggleAlternatives(this.current()));
    this.part(".attend").addEventListener("click", () => this.attend(this.current()));
    this.part(".leave").addEventListener("click", () => page.leave(this));
    this.output.addEventListener("click", (event) => this.onClick(event));
    this.output.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("keydown", ({ key }) => key === "Escape" && this.leaveAlternatives());
    this.output.addEventListener("pointerover", (event) => this.lightWord(event.target.closest(".word")));
    this.output.addEventListener("pointerleave", () => page.light(null));
    this.output.addEventListener("focusout", () => page.light(null));
    this.output.addEventListener("focusin", (event) => this.onFocus(event.target.closest(".sentence")));
    this.choose(model);
  }

  /** Choose a model and two of its languages; one that it lacks is replaced by another. */
  choose(name, from = this.model?.source_language, to = this.model?.target_language) {
    const model = this.page.models.find((model) => model.name === name);
    const source_language = from in model.directions ? from : model.source_language;
    const targets = model.directions[source_language];
    const target_language = [to, this.model?.source_language, targets[0]].find((code) => targets.includes(code));
    this.model = { ...model, source_language, target_language };
    const first = this.page.panes[0] ?? this; // the second pane translates the same language as the first
    const isOffered = (model) => first === this || first.model.source_language in model.directions;
    const offered = this.page.models.filter(isOffered);
    this.picker.replaceChildren(...offered.map((model) => make("option", { value: model.name }, model.name)));
    this.picker.value = name;
    this.element.setAttribute("aria-label", `Translation by ${name}`);
  }

  get text() {
    return this.sentences.map(({ gap, element }) => gap + element.textContent).join("");
  }

  get isComplete() {
    return this.sentences.length > 0 && this.sentences.every(({ record }) => record);
  }

  /** Translate the new sentences, and show them as they arrive. */
  async translate(sentences, signal) {
    const { request, key } = this.page.requestFor(this.model);
    const before = this.sentences;
    this.closeAlternatives();
    this.sentences = sentences.map((sentence, index) => {
      const element = make("span", { className: "sentence", tabIndex: index ? -1 : 0 });
      const record = cache.get(`${key} ${sentence.text}`);
      const shown = { ...sentence, index, element, record };
      if (record) this.draw(shown);
      else this.write(shown, before[index]?.element.textContent ?? "");
      return shown;
    });
    this.output.replaceChildren(...this.sentences.flatMap(({ gap, element }) => [gap, element]));
    this.report();
    const missing = new Map(); // sentences by text, so that duplicates are sent once
    for (const sentence of this.sentences) {
      if (!sentence.record) missing.set(sentence.text, [...(missing.get(sentence.text) ?? []), sentence]);
    }
    if (!missing.size) return this.rest();
    const texts = [...missing.keys()];
    const start = performance.now();
    this.element.classList.add("busy");
    this.output.ariaBusy = "true";
    try {
      const body = { ...request, text: texts, alignment: true };
      for await (const [name, data] of events("translate/stream", body, signal)) {
        if (name === "error") throw new ServerError(data.error);
        for (const sentence of missing.get(texts[data.index]) ?? []) {
          if (name === "partial") this.write(sentence, data.text);
          if (name === "translation") this.draw(Object.assign(sentence, { record: data }));
        }
        if (name === "translation") remember(`${key} ${texts[data.index]}`, data);
      }
      this.report(`${number((performance.now() - start) / 1000, 1)} s`);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    } finally {
      if (!signal.aborted) this.rest();
    }
  }

  rest() {
    this.element.classList.remove("busy");
    this.output.ariaBusy = "false";
  }

  clear() {
    this.sentences = [];
    this.output.replaceChildren();
    this.closeAlternatives();
    this.rest();
    this.report();
  }

  /** Text that is not final: the sentence so far, or the previous text. */
  write(sentence, text) {
    sentence.element.classList.add("pending");
    sentence.element.textContent = text;
  }

  draw(sentence) {
    const { record, element } = sentence;
    const text = chosen(record).text;
    const other = this.page.otherText(this, sentence.index);
    const changed = other === undefined ? [] : changedWords(text, other);
    element.classList.remove("pending");
    element.setAttribute("role", "button"); // not before: a button needs a name
    element.classList.toggle("doubtful", conditionsOf(record).some((name) => name !== "split"));
    element.replaceChildren(...wordSpans(text, (word) => (changed[word] ? "differs" : "")));
  }

  /** Show facts about the whole translation below it. */
  report(facts = "") {
    const known = this.sentences.filter(({ record }) => record);
    const score = this.sentences.length === 1 && known.length && chosen(known[0].record).score;
    const count = this.sentences.length > 1 && plural(this.sentences.length, "sentence");
    this.facts = [count, score && `score ${number(score, 2)}`, facts].filter(Boolean).join(" · ");
    this.part(".facts").textContent = this.facts;
    showConditions(this.part(".conditions"), known.map(({ record }) => record), "sentence");
    for (const button of this.element.querySelectorAll(".foot button")) button.disabled = !known.length;
  }

  fail(error) {
    if (!(error instanceof ServerError)) console.error(error);
    const message = make("span", { role: "alert" }, error.message);
    this.part(".conditions").replaceChildren(make("li", { className: "error" }, icon("warning"), message));
  }

  async copy() {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(this.text);
    } else {
      // Without HTTPS, a page from another machine has no clipboard API; a selection can still be copied.
      getSelection().selectAllChildren(this.output);
      document.execCommand("copy");
      getSelection().removeAllRanges();
    }
    const button = this.part(".copy");
    button.firstElementChild.replaceWith(icon("check"));
    this.page.announce("Copied");
    setTimeout(() => button.firstElementChild.replaceWith(icon("sheets")), 1500);
  }

  // --- alignment

  /** Mark the target words under the mouse or keyboard, and their source words. */
  lightWord(word) {
    const sentence = word && this.sentenceOf(word);
    if (!sentence?.record) return this.page.light(null);
    const target = Number(word.dataset.word);
    const sources = linksOf(sentence.record).filter(([, to]) => to === target).map(([from]) => from);
    this.page.light({ index: sentence.index, sources: new Set(sources), pane: this, target });
  }

  /** Mark this pane's words that belong to the page's highlight; return their text. */
  mark(light) {
    for (const word of this.output.querySelectorAll(".lit")) word.classList.remove("lit");
    const sentence = light && this.sentences[light.index];
    if (!sentence?.record) return "";
    const targets = new Set(linksOf(sentence.record).filter(([from]) => light.sources.has(from)).map(([, to]) => to));
    if (light.pane === this) targets.add(light.target);
    const words = [...sentence.element.querySelectorAll(".word")];
    const marked = words.filter(({ dataset }) => targets.has(Number(dataset.word)));
    for (const word of marked) word.classList.add("lit");
    return marked.map((word) => word.textContent).join(" ");
  }

  /** Show which words belong together, in words. */
  explain(text) {
    this.part(".facts").textContent = text || this.facts;
  }

  sentenceOf(node) {
    const element = node.closest?.(".sentence");
    return this.sentences.find((sentence) => sentence.element === element);
  }

  /** The sentence that has the focus or had it last, or the first. */
  current() {
    return this.sentences.find(({ element }) => element.tabIndex === 0) ?? this.sentences[0];
  }

  onFocus(element) {
    if (!element) return;
    for (const { element: each } of this.sentences) each.tabIndex = each === element ? 0 : -1;
    if (element.matches(":focus-visible")) this.lightWord((this.cursor = find(".word", element)));
  }

  onClick(event) {
    const sentence = this.sentenceOf(event.target);
    if (!sentence || !getSelection().isCollapsed) return;
    sentence.element.focus();
    this.toggleAlternatives(sentence);
  }

  onKey(event) {
    const sentence = this.sentenceOf(event.target);
    if (!sentence) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.toggleAlternatives(sentence);
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      event.preventDefault();
      const words = [...this.output.querySelectorAll(".word")];
      const here = words.findIndex((word) => word === this.cursor && sentence.element.contains(word));
      const first = words.findIndex((word) => sentence.element.contains(word));
      const next = words[(here < 0 ? first : here) + (event.key === "ArrowRight" ? 1 : -1)];
      if (!next) return;
      next.closest(".sentence").focus();
      this.lightWord((this.cursor = next));
      this.page.announce(this.part(".facts").textContent);
    }
  }

  // --- alternatives and attention

  toggleAlternatives(sentence) {
    const isOpen = this.open === sentence;
    this.closeAlternatives();
    if (!isOpen && sentence?.record) this.openAlternatives(sentence);
  }

  closeAlternatives() {
    this.open?.element.classList.remove("open");
    this.open = null;
    this.alternatives.hidden = true;
  }

  leaveAlternatives() {
    const sentence = this.open;
    this.closeAlternatives();
    sentence?.element.focus();
  }

  openAlternatives(sentence) {
    this.open = sentence;
    sentence.element.classList.add("open");
    const texts = hypotheses(sentence.record);
    const best = Math.max(...texts.map(({ score }) => score ?? 0));
    const shut = make("button", { className: "icon", title: "Close" }, icon("close"));
    shut.addEventListener("click", () => this.leaveAlternatives());
    const items = texts.map(({ text, score }, number_) => {
      const isChosen = number_ === (sentence.record.chosen ?? 0);
      const changed = changedWords(text, chosen(sentence.record).text);
      const words = make("span", { className: "text" }, ...wordSpans(text, (word) => (changed[word] ? "differs" : "")));
      const button = make("button", {}, words);
      if (score !== null) {
        const meter = make("meter", { value: Math.exp(score - best), title: "Probability relative to the best" });
        meter.setAttribute("aria-hidden", "true");
        button.append(meter, make("span", { className: "score", title: "Search score" }, number(score, 2)));
      }
      button.setAttribute("aria-pressed", isChosen);
      button.addEventListener("click", () => this.take(sentence, number_));
      return make("li", {}, button);
    });
    const where = this.sentences.length > 1 ? `, sentence ${sentence.index + 1} of ${this.sentences.length}` : "";
    const heading = make("h3", {}, texts.length > 1 ? `Alternatives${where}` : `No alternatives${where}`);
    this.alternatives.replaceChildren(make("div", { className: "bar" }, heading, shut), make("ol", {}, ...items));
    this.alternatives.hidden = false;
  }

  /** Replace a sentence with another hypothesis. */
  take(sentence, number_) {
    sentence.record.chosen = number_;
    if (number_) this.alignAlternative(sentence, chosen(sentence.record));
    this.draw(sentence);
    this.report();
    this.openAlternatives(sentence);
    find(`li:nth-child(${number_ + 1}) button`, this.alternatives).focus();
  }

  async attend(sentence) {
    try {
      showAttention(await this.attention(sentence, chosen(sentence.record)), this.model.name);
    } catch (error) {
      this.fail(error);
    }
  }

  attention({ text }, hypothesis) {
    return call("attention", { source: text, target: hypothesis.text, ...languagesOf(this.model) });
  }

  /** Alternatives have no alignment: link each token to the source token with the most attention in the last layer. */
  async alignAlternative(sentence, hypothesis) {
    const found = await this.attention(sentence, hypothesis).catch(() => null);
    if (!found) return;
    const [sources, targets] = found.num_tags;
    const rows = meanOfHeads(found.layers.at(-1)).slice(targets, -1); // without tags and end symbols
    const weights = rows.map((row) => row.slice(sources, -1));
    const alignment = weights.map((row, target) => [row.indexOf(Math.max(...row)), target]);
    const [source_tokens, target_tokens] = [found.source_tokens.slice(sources), found.target_tokens.slice(targets)];
    hypothesis.attended = { source_tokens, target_tokens, alignment };
  }
}

const hypotheses = (record) => [record, ...record.alternatives];
const chosen = (record) => hypotheses(record)[record.chosen ?? 0];

/** The links between words, as pairs of source word and target word. */
function linksOf(record) {
  const { alignment, source_tokens, target_tokens } = record.chosen ? (chosen(record).attended ?? {}) : record;
  if (!alignment) return [];
  const [sources, targets] = [wordNumbers(source_tokens), wordNumbers(target_tokens)];
  return alignment.map(([source, target]) => [sources[source], targets[target]]);
}

function remember(key, record) {
  cache.set(key, record);
  if (cache.size > MOST_CACHED) cache.delete(cache.keys().next().value);
}
