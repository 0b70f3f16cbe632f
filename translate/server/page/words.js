// Splits text into sentences, and finds the words in which two texts differ.

// The words and the rules of the package's own `decoding/sentences.py`, which explains them.
const { cldr, ours } = await (await fetch(new URL("sentences.json", import.meta.url))).json();
const QUOTES = "\"'»«”“’‘›‹";
const CJK = "[々぀-ヿ㐀-鿿豈-﫿]";
const TAG = "[a-zA-Z][^<>]{0,200}>";
const SPACED = "[ \\u00a0\\u202f](?:»(?![\\p{L}\\p{N}_])|།)";
const CLOSER = `[${QUOTES})\\]}」』）》〉】〕]|${SPACED}|</${TAG}|\\[\\p{Nd}{1,3}\\]`;
const CLOSING = `(?:${CLOSER})*`;
const [ENDS, WIDE] = [".!?…؟۔։።", "。！？｡।॥။។៕།༎"];
const MARK = new RegExp(
  `(?<=[${ENDS}])(?:${CLOSER}|[*_])*\\s+(?!\\s|[${ENDS}](?![\\p{L}\\p{N}_]))` +
    `|(?<=[${WIDE}])(?![${WIDE}])${CLOSING}\\s*` +
    `|(?<=${CJK}[!?]|[!?]{2}|……)${CLOSING}(?=[「『（《〈【]?${CJK})`,
  "gu",
);
const OPENING = new RegExp(`^(?:[${QUOTES}„‚(\\[{¿¡#$€£+*_–—\\s\\-]|<${TAG})*`, "u");
const BORDER = new RegExp(`[${QUOTES}„‚()\\[\\]{}<>*/–—\\s]|(?<=\\.)-|-(?=\\p{L}{2})`, "u");
const OPENED = /(?:\{[^{}]{0,80}|<\/?[a-zA-Z][^<>]{0,200})$/u;
const CLOSED = /^[^{}<>]{0,200}[}>]/u;
const INITIAL = /^(?:\p{L}|(?![ap]\.m)[a-z](?:\.\p{L})+)$/u;
const DOTTED = /^\p{L}{1,3}(?:\.\p{L}{1,3})+$/u;
const ORDINAL = /^(?:(?:\d{1,2}\.)?\d{1,2}|\d{3}|[IVXLC]+)$/u;
const NUMBER = /^(?:\p{Nd}[\p{L}\p{M}\p{N}_]*|[IVXLC]{2,}|[VX])$/u;
const WORD = /[\p{L}\p{N}_]/u;
const LONGEST = 24;

/** The words of a language that decide about the full stop after them or before them. */
function wordsOf(language) {
  const code = language.split("-")[0];
  const listed = cldr.short_forms;
  const entries = (listed[code] ?? [...listed.de, ...listed.en]).flatMap((entry) => entry.split(/[ -]/u));
  const plain = entries.map((entry) => entry.replace(/\.$/u, ""));
  const shortForms = [...ours.short_forms, ...plain.filter((form) => !ours.words.includes(form.toLowerCase()))];
  const lowered = [...shortForms, ...ours.before_numbers].map((form) => form.toLowerCase());
  const beforeNumbers = new Set(lowered.filter((form) => !ours.before_small.includes(form)));
  const hasOrdinals = ours.ordinals.includes(code);
  return { shortForms: new Set(shortForms), beforeNumbers, hasOrdinals };
}

function endsSentence(text, markStart, markEnd, hasCapitals, words) {
  const { shortForms, beforeNumbers, hasOrdinals } = words;
  const precedesNumbers = (word) => beforeNumbers.has(word.toLowerCase()) || word.endsWith("str");
  const stop = markStart - 1;
  const rest = text.slice(markEnd, markEnd + 300);
  const first = rest.slice(OPENING.exec(rest)[0].length).match(/^[\p{L}\p{M}\p{N}_]+/u)?.[0] ?? " ";
  const isSmall = /^\p{Changes_When_Titlecased}/u.test(first);
  if (OPENED.test(text.slice(Math.max(0, stop - 200), markEnd)) && CLOSED.test(rest)) return false;
  const isEllipsis = /(?:\.\.| \.|…)$/u.test(text.slice(Math.max(0, stop - 1), stop + 1));
  if (isSmall && (hasCapitals || isEllipsis)) return false;
  const last = text.slice(Math.max(0, stop - LONGEST), stop).split(BORDER).at(-1);
  if (text[stop] !== "." || !last || last.endsWith(".")) return true;
  const end = stop - last.length;
  const before = text.slice(Math.max(0, end - LONGEST), end).trimEnd();
  const isStarted = !isSmall && ours.starters.includes(first.toLowerCase());
  if (INITIAL.test(last)) return isStarted && /^\p{Lu}$/u.test(last) && !before.endsWith(".");
  if (NUMBER.test(first) && precedesNumbers(last)) return false;
  if (ORDINAL.test(last)) {
    if (before.endsWith(".") && precedesNumbers(before.slice(0, -1).split(BORDER).at(-1))) return true;
    return /[\p{L}\p{N},]$/u.test(before) && (isStarted || !hasOrdinals);
  }
  const isShort = DOTTED.test(last) || shortForms.has(last) || shortForms.has(last.toLowerCase());
  return isStarted || !isShort || (!isSmall && ours.before_small.includes(last));
}

/** The sentences of a text: their `text`, `start` and `end`. */
export function splitSentences(text, language) {
  const words = wordsOf(language);
  const sentences = [];
  let offset = 0;
  for (const line of text.split("\n")) {
    const hasCapitals = line !== line.toLowerCase();
    let start = 0;
    for (const { index, 0: mark } of line.matchAll(MARK)) {
      const end = index + mark.length;
      if (!WORD.test(line.slice(start, index)) || !WORD.test(line.slice(end))) continue;
      if (!endsSentence(line, index, end, hasCapitals, words)) continue;
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
