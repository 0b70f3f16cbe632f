// Splits text into sentences, and finds the words in which two texts differ.

// An initial, an ordinal, or an abbreviation: the full stop after it does not end a sentence.
const NO_END = /(?:^|[\s(.])(?:\p{L}|\d{1,2}|Dr|Prof|Nr|St|Str|Hr|Fr|Mr|Mrs|Ms|bzw|vgl|inkl|ca|Abb|Bd)\.\s+$/u;

/** The sentences of a text: their `text`, `start` and `end`. */
export function splitSentences(text, language) {
  const segmenter = new Intl.Segmenter(language, { granularity: "sentence" });
  const sentences = [];
  let offset = 0;
  for (const line of text.split("\n")) {
    let open = null; // a sentence that continues after an abbreviation
    for (const { segment, index } of segmenter.segment(line)) {
      open = { start: open?.start ?? offset + index, end: offset + index + segment.length };
      if (NO_END.test(segment)) continue;
      sentences.push(open);
      open = null;
    }
    if (open) sentences.push(open);
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
