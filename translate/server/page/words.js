// Splits text into sentences, and finds the words in which two texts differ.

// The words and the rules of the package's own `decoding/sentences.py`, which explains them.
const { cldr, ours } = await (await fetch(new URL("sentences.json", import.meta.url))).json();
const QUOTES = "\"'»«”“’‘›‹";
const CLOSING = `(?:[${QUOTES})\\]}」』）]|[ \\u00a0\\u202f]»(?![\\p{L}\\p{N}_]))*`;
const WIDE = "。！？｡।॥";
const MARK = new RegExp(`(?<=[.!?…؟۔։።])${CLOSING}\\s+|(?<=[${WIDE}])(?![${WIDE}])${CLOSING}\\s*`, "gu");
const OPENING = new RegExp(`^[${QUOTES}„‚(\\[{¿¡#$€£+*–—\\s\\-]*`, "u");
const BORDER = new RegExp(`[${QUOTES}„‚()\\[\\]{}/–—\\s]`, "u");
const OPENED = /(?:\{[^{}]{0,80}|<\/?[a-zA-Z][^<>]{0,200})$/u;
const CLOSED = /^[^{}<>]{0,200}[}>]/u;
const INITIAL = /^(?:\p{L}|(?![ap]\.m)[a-z](?:\.\p{L})+)$/u;
const DOTTED = /^\p{L}{1,3}(?:\.\p{L}{1,3})+$/u;
const ORDINAL = /^(?:(?:\d{1,2}\.)?\d{1,3}|[IVXLC]+)$/u;
const WORD = /[\p{L}\p{N}_]/u;
const LONGEST = 24;

/** The words of a language that decide about the full stop after them or before them. */
function wordsOf(language) {
  const code = language.split("-")[0];
  const listed = cldr.short_forms;
  const entries = (listed[code] ?? [...listed.de, ...listed.en]).flatMap((entry) => entry.split(" "));
  const plain = entries.map((entry) => entry.replace(/\.$/u, ""));
  const shortForms = [...ours.short_forms, ...plain.filter((form) => !ours.words.includes(form.toLowerCase()))];
  const beforeNumbers = [...shortForms, ...ours.before_numbers].map((form) => form.toLowerCase());
  const hasOrdinals = ours.ordinals.includes(code);
  return { shortForms: new Set(shortForms), beforeNumbers: new Set(beforeNumbers), hasOrdinals };
}

function endsSentence(text, markStart, markEnd, { shortForms, beforeNumbers, hasOrdinals }) {
  const precedesNumbers = (word) => beforeNumbers.has(word.toLowerCase()) || word.endsWith("str");
  const stop = markStart - 1;
  const rest = text.slice(markEnd, markEnd + 300);
  const first = rest.slice(OPENING.exec(rest)[0].length).match(/^[\p{L}\p{M}\p{N}_]+/u)?.[0] ?? " ";
  if (/^\p{Ll}/u.test(first)) return false;
  if (OPENED.test(text.slice(Math.max(0, stop - 200), markEnd)) && CLOSED.test(rest)) return false;
  const last = text.slice(Math.max(0, stop - LONGEST), stop).split(BORDER).at(-1);
  if (text[stop] !== "." || !last || last.endsWith(".")) return true;
  if (INITIAL.test(last) || (/^\p{Nd}/u.test(first) && precedesNumbers(last))) return false;
  const isStarted = ours.starters.includes(first.toLowerCase());
  if (ORDINAL.test(last)) {
    const end = stop - last.length;
    const before = text.slice(Math.max(0, end - LONGEST), end).trimEnd();
    if (before.endsWith(".") && precedesNumbers(before.slice(0, -1).split(BORDER).at(-1))) return true;
    return /[\p{L}\p{N},]$/u.test(before) && (isStarted || !hasOrdinals);
  }
  const isShort = DOTTED.test(last) || shortForms.has(last) || shortForms.has(last.toLowerCase());
  return isStarted || !isShort;
}

/** The sentences of a text: their `text`, `start` and `end`. */
export function splitSentences(text, language) {
  const words = wordsOf(language);
  const sentences = [];
  let offset = 0;
  for (const line of text.split("\n")) {
    let start = 0;
    for (const { index, 0: mark } of line.matchAll(MARK)) {
      const end = index + mark.length;
      if (!WORD.test(line.slice(start, index)) || !WORD.test(line.slice(end))) continue;
      if (!endsSentence(line, index, end, words)) continue;
      sentences.push({ start: offset + start, end: offset + end });
      start = end;
    }
    sentences.push({ start: offset + start, end: offset + line.length });
    offset += line.length + 1;
  }
  return sentences.map(({ start, end }) => trimmed(text, start, end)).filter((sentence) => sentence.text);
}

function trimmed(text, start, end) {
  const part = text.slice(start, end);
  const kept = part.trim();
  start += part.length - part.trimStart().length;
  return { text: kept, start, end: start + kept.length };
}

/** The word index of each token; SentencePiece writes ▁ before a word. */
export function wordNumbers(tokens) {
  let [word, hasText] = [0, false];
  return tokens.map((token) => {
    if (token.startsWith("▁") && hasText) [word, hasText] = [word + 1, false];
    hasText ||= token.replaceAll("▁", "") !== "";
    return word;
  });
}

/** For each word of `text`, whether it is missing in `other` (by the longest common subsequence). */
export function changedWords(text, other) {
  const [a, b] = [text, other].map((each) => each.split(/\s+/).filter(Boolean));
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const changed = [];
  for (let i = 0, j = 0; i < a.length; ) {
    if (j < b.length && a[i] === b[j]) (changed.push(false), i++, j++);
    else if (j < b.length && table[i][j + 1] >= table[i + 1][j]) j++;
    else (changed.push(true), i++);
  }
  return changed;
}
