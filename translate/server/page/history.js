// Earlier translations, kept in this browser only.

import { find, languageName, make } from "./elements.js";

const MOST_KEPT = 100;
const MOST_CHARACTERS = 5000; // per text; a browser's storage is small
const PAUSE = 2000; // milliseconds without a change before a translation is kept

let latest; // not kept yet, because its text may still change
let timer = 0;

const read = () => JSON.parse(localStorage.getItem("history") ?? "[]");
const write = (entries) => localStorage.setItem("history", JSON.stringify(entries.slice(0, MOST_KEPT)));
const isKept = () => localStorage.getItem("keep-history") !== "no";

/** Keep this translation after the pause, and drop the one that still waits. */
export function keepSoon(entry) {
  latest = entry;
  clearTimeout(timer);
  timer = setTimeout(keepLatest, PAUSE);
}

/** The text changed: the waiting translation was not final. */
export const forgetLatest = () => (latest = undefined);

/** An entry that continues the previous one in the same direction, as while typing, replaces it. */
function keepLatest() {
  const entry = latest;
  forgetLatest();
  if (!entry || !isKept() || entry.source.length > MOST_CHARACTERS) return;
  const isAlike = ({ model, to }) => model === entry.model && to === entry.to;
  const entries = read().filter((each) => each.source !== entry.source || !isAlike(each));
  if (entries[0] && isAlike(entries[0]) && entry.source.startsWith(entries[0].source)) entries.shift();
  write([entry, ...entries]);
}

/** Make the button open the sheet; `restore(entry)` is called with the chosen entry. */
export function setUpHistory(restore) {
  const sheet = find("#history-sheet");
  const list = find("#history-list");
  const draw = () => {
    const items = read().map((entry) => {
      const { from, to } = entry;
      const languages = from && to ? `${languageName(from)} to ${languageName(to)} · ` : "";
      const when = new Date(entry.time).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
      const button = make(
        "button",
        {},
        make("span", { className: "source" }, entry.source),
        make("span", {}, entry.translation),
        make("small", {}, `${languages}${entry.model} · ${when}`),
      );
      button.addEventListener("click", () => (sheet.close(), restore(entry)));
      return make("li", {}, button);
    });
    list.replaceChildren(...(items.length ? items : [make("li", { className: "note" }, "Nothing yet.")]));
    find("#clear-history").disabled = !items.length;
  };
  find("#open-history").addEventListener("click", () => (keepLatest(), draw(), sheet.showModal()));
  addEventListener("pagehide", keepLatest);
  find("#clear-history").addEventListener("click", () => (localStorage.removeItem("history"), draw()));
  const box = find("#keep-history");
  box.checked = isKept();
  box.addEventListener("change", () => localStorage.setItem("keep-history", box.checked ? "yes" : "no"));
}
