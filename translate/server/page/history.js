// What was translated before, kept in this browser alone.

import { find, make } from "./elements.js";

const MOST_KEPT = 100;
const MOST_CHARACTERS = 5000; // of a text; the browser gives little room
const PAUSE = 2000; // milliseconds without a change before a translation counts as one to keep

let latest; // the translation that is not kept yet, for its text may still change
let timer = 0;

const read = () => JSON.parse(localStorage.getItem("history") ?? "[]");
const write = (entries) => localStorage.setItem("history", JSON.stringify(entries.slice(0, MOST_KEPT)));
const isKept = () => localStorage.getItem("keep-history") !== "no";

/** Keep this translation soon, in the place of the one that waits. */
export function keepSoon(entry) {
  latest = entry;
  clearTimeout(timer);
  timer = setTimeout(keepLatest, PAUSE);
}

/** The text changes: what waits to be kept was not its final form. */
export const forgetLatest = () => (latest = undefined);

/** What only grew out of the entry before, as a text does while it is typed, takes its place. */
function keepLatest() {
  const entry = latest;
  forgetLatest();
  if (!entry || !isKept() || entry.source.length > MOST_CHARACTERS) return;
  const entries = read().filter(({ source, model }) => source !== entry.source || model !== entry.model);
  if (entries[0] && entry.source.startsWith(entries[0].source)) entries.shift();
  write([entry, ...entries]);
}

/** Make the button open the sheet; `restore(entry)` is called with what was chosen in it. */
export function setUpHistory(restore) {
  const sheet = find("#history-sheet");
  const list = find("#history-list");
  const draw = () => {
    const items = read().map((entry) => {
      const when = new Date(entry.time).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
      const button = make(
        "button",
        {},
        make("span", { className: "source" }, entry.source),
        make("span", {}, entry.translation),
        make("small", {}, `${entry.model} · ${when}`),
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
