// Files: plain text is translated line by line, which keeps the number of lines; a document is translated as a whole.

import { call } from "./api.js";
import { describeConditions, find, make, number, plural, showConditions, showWarnings } from "./elements.js";

const SECONDS_AT_ONCE = 1; // target duration of a request
const LINES_AT_ONCE = 200; // at most
const CHARACTERS_AT_ONCE = 8000;
const LINES_SHOWN = 5;
const CATALOGS = ["po", "xliff"];
const BLOB_TYPES = { html: "text/html", po: "text/x-gettext-translation", xliff: "application/xliff+xml" };

// Kinds of files that are not text, by their first bytes; as in the package's files.py.
const NOT_TEXT = [
  [/^%PDF-\d\.\d\s/, "a PDF file"],
  [/^PK\x03\x04.*PK\x03\x04.{26}word\//s, "a Word file"],
  [/^PK\x03\x04.*PK\x03\x04.{26}xl\//s, "an Excel file"],
  [/^PK\x03\x04.*PK\x03\x04.{26}ppt\//s, "a PowerPoint file"],
  [/^PK\x03\x04.{26}mimetypeapplication\/vnd\.oasis\.opendocument\.spreadsheet/s, "an ODF spreadsheet"],
  [/^PK\x03\x04.{26}mimetypeapplication\/vnd\.oasis\.opendocument/s, "an ODF document"],
  [/^PK\x03\x04.{26}mimetypeapplication\/epub/s, "an EPUB book"],
  [/^\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1/, "an old Word, Excel or PowerPoint file"],
  [/^\{\\rtf1[\\ ]/, "an RTF file"],
  [/^(\x89PNG\r|\xff\xd8\xff|GIF8[79]a[^\n]*\0|II\*\0|MM\0\*|RIFF.{4}WEBP)/s, "an image"],
  [/^SQLite format 3\0/, "an SQLite database"],
  [/^(PK\x03\x04|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07)/, "an archive"],
  [/^(\x1f\x8b|BZh[1-9]1AY&SY|\xfd7zXZ\0|\x28\xb5\x2f\xfd)/, "a compressed file"],
  [/^(\xff\xfe|\xfe\xff)/, "in UTF-16"],
];
const BEGINNING_BYTES = 2 ** 20;

/** Translate files that are chosen or dropped; the page provides model and settings and shows messages.

`documents` has the format of each extension, and `structured` what to do with other files; both are from the server. */
export function setUpFiles({ documents, structured, requestFor, chosenModel, onFile, announce, fail }) {
  const part = (name) => find(`#${name}`);
  let controller = null;
  let result = null;

  async function open(file) {
    onFile();
    controller?.abort();
    let text;
    try {
      const bytes = await file.arrayBuffer();
      const kind = binaryKind(new Uint8Array(bytes.slice(0, BEGINNING_BYTES)));
      const way = "Save it as plain text or HTML, and drop it again.";
      if (kind) return fail(new Error(`“${file.name}” is ${kind}, not UTF-8 text. ${way}`));
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return fail(new Error(`“${file.name}” is not UTF-8 text. Save it as UTF-8, and drop it again.`));
    }
    const format = documents[extensionOf(file.name)];
    const advice = !format && structured[extensionOf(file.name)];
    const isTsonga = /\.ts$/i.test(file.name) && !/[<{;]/.test(text.slice(0, 4096));
    if (advice && !isTsonga) return fail(new Error(`Lines of “${file.name}” are not text: ${advice}.`));
    if (!text.trim()) return fail(new Error(`“${file.name}” is empty.`));
    fail(null);
    await (format && format !== "text" ? translateDocument(file.name, text, format) : translateLines(file.name, text));
  }

  function begin(name, facts) {
    part("drop").hidden = part("again-choice").hidden = true;
    part("job").hidden = false;
    part("file-name").textContent = name;
    part("file-facts").textContent = facts;
    show({ running: true });
    return (controller = new AbortController());
  }

  async function translateDocument(name, text, format) {
    const { n_best, ...request } = requestFor();
    result = { name: nameOf(name, chosenModel()), type: BLOB_TYPES[format] };
    const mine = begin(name, "");
    part("file-progress").removeAttribute("value"); // the server reports no progress
    part("file-state").textContent = "Translating";
    const start = performance.now();
    let answer = null;
    try {
      answer = await call("translate/document", { ...request, format, text, again: part("again").checked && CATALOGS.includes(format) }, mine.signal);
    } catch (error) {
      if (controller === mine && !mine.signal.aborted) fail(error);
    }
    if (controller !== mine) return; // another file has replaced it
    result.text = answer?.text;
    end(answer ? doneSince(start) : mine.signal.aborted ? "Cancelled" : "Stopped", "Download");
    part("file-progress").value = answer ? part("file-progress").max : 0;
    if (!answer) return;
    const entries = Object.entries(answer.entries).map(([name, count]) => `${number(count)} ${name}`);
    part("file-facts").textContent = [plural(answer.sentences, "sentence"), ...entries].join(", ");
    const problems = answer.problems.map((problem) => `Check ${problem}.`);
    showWarnings(part("file-conditions"), [...describeConditions(answer.conditions, "sentence"), ...problems]);
  }

  async function translateLines(name, text) {
    const mark = text.startsWith("\ufeff") ? "\ufeff" : "";
    const parts = text.slice(mark.length).split(/(\r?\n)/); // lines alternate with their ends
    if (parts.length > 1 && !parts.at(-1)) parts.pop();
    const lines = parts.filter((_, place) => place % 2 === 0);
    const request = requestFor();
    const records = [];
    result = { name: nameOf(name, chosenModel()) };
    const mine = begin(name, plural(lines.length, "line"));
    const { signal } = mine;
    const start = performance.now();
    let trouble = null;
    let most = 4;
    try {
      while (records.length < lines.length) {
        const asked = performance.now();
        const some = nextLines(lines, records.length, most);
        const { translations } = await call("translate", { ...request, n_best: 1, text: some }, signal);
        records.push(...translations);
        const factor = (SECONDS_AT_ONCE * 1000) / (performance.now() - asked);
        most = Math.round(Math.min(LINES_AT_ONCE, Math.max(1, some.length * Math.min(factor, 4))));
        const seconds = (performance.now() - start) / 1000;
        progress(lines, records, (seconds / records.length) * (lines.length - records.length));
      }
    } catch (error) {
      trouble = error;
    }
    if (controller !== mine) return; // another file has replaced it
    const done = records.length === lines.length;
    if (!done && !signal.aborted) fail(new Error(`After line ${number(records.length)}: ${trouble.message}`));
    const count = plural(records.length, "line");
    const made = records.map((record, line) => record.text + (parts[2 * line + 1] ?? ""));
    if (records.length) result.text = mark + made.join("");
    if (done) end(doneSince(start), "Download");
    else end(`${signal.aborted ? "Cancelled" : "Stopped"} after ${count}`, `Download ${count}`);
    showConditions(part("file-conditions"), records, "line");
  }

  function end(state, download) {
    part("file-state").textContent = state;
    announce(state);
    part("download").textContent = download;
    show({ running: false });
  }

  function show({ running }) {
    part("cancel-file").hidden = !running;
    part("other-file").hidden = running;
    part("download").hidden = running || result.text === undefined;
    if (!running) return part("other-file").focus();
    part("file-conditions").replaceChildren();
    part("preview").replaceChildren();
    part("file-state").textContent = "Starting";
    part("file-progress").value = 0;
  }

  function progress(lines, records, seconds) {
    part("file-progress").max = lines.length;
    part("file-progress").value = records.length;
    const done = `${number(records.length)} of ${plural(lines.length, "line")}`;
    part("file-state").textContent = `${done}, ${duration(seconds)} left`;
    const shown = records.slice(-LINES_SHOWN).map(({ text }, place, { length }) => {
      const line = records.length - length + place;
      const original = make("span", { className: "source" }, lines[line]);
      return make("li", { value: line + 1 }, original, make("span", {}, text));
    });
    part("preview").replaceChildren(...shown);
  }

  part("choose-file").accept = ["text/*", ".de", ".en", ...Object.keys(documents)].join();
  part("choose-file").addEventListener("change", ({ target }) => {
    if (target.files[0]) open(target.files[0]);
    target.value = ""; // so that the same file can be chosen again
  });
  part("cancel-file").addEventListener("click", () => controller.abort());
  part("other-file").addEventListener("click", () => {
    part("job").hidden = true;
    part("drop").hidden = part("again-choice").hidden = false;
    part("choose-file").focus();
  });
  part("download").addEventListener("click", () => {
    const href = URL.createObjectURL(new Blob([result.text], { type: result.type ?? "text/plain" }));
    make("a", { href, download: result.name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
  });
  const isFile = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? document.body.classList.remove("dropping"));
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!isFile(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
}

function binaryKind(bytes) {
  let beginning = ""; // one character per byte
  const size = 4096; // a call takes only so many arguments
  for (let from = 0; from < bytes.length; from += size) {
    beginning += String.fromCharCode(...bytes.subarray(from, from + size));
  }
  return NOT_TEXT.find(([pattern]) => pattern.test(beginning))?.[1];
}

function nextLines(lines, from, most) {
  let [to, characters] = [from, 0];
  do characters += lines[to++].length;
  while (to < lines.length && to - from < most && characters + lines[to].length <= CHARACTERS_AT_ONCE);
  return lines.slice(from, to);
}

const extensionOf = (name) => name.toLowerCase().match(/\.[^.]*$/)?.[0];

/** The name of a translation: text.de becomes text.en, page.html page.en.html, and app.pot app.en.po. */
function nameOf(name, { name: run, source_language: source, target_language: target }) {
  const parts = name.replace(/\.pot$/i, ".po").split(".");
  const place = parts.lastIndexOf(source);
  if (source && target && place > 0 && place >= parts.length - 2) return parts.with(place, target).join(".");
  return parts.join(".").replace(/(\.[^.]*)?$/, (ending) => `.${target || run}${ending || ".txt"}`);
}

const doneSince = (start) => `Done in ${duration((performance.now() - start) / 1000)}`;

function duration(seconds) {
  if (seconds < 10) return `${number(seconds, 1)} s`;
  return seconds < 100 ? `${number(seconds)} s` : `${number(seconds / 60)} min`;
}
