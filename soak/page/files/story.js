// The story of one violation, as `soak explain` tells it, in a dialog that has an address of its own.

import { get } from "/page/asking.js";
import { badge, byId, h } from "/page/dom.js";
import { clock, clockMs, spaced } from "/page/words.js";

const PREFIX = "#violation=";
const dialog = byId("story");
const KEPT_MAX = 50;
/** By violation: its story. What was read once is there after the daemon has ended, too. */
const kept = new Map();
let asked = "";
let run = "";

export const rememberRun = (name) => { run = name; };

export async function readStory(id) {
  if (kept.has(id)) return kept.get(id);
  const story = await get(`/violations/${encodeURIComponent(id)}`);
  if (kept.size >= KEPT_MAX) kept.delete(kept.keys().next().value);
  kept.set(id, story);
  return story;
}

/** What was written and is not as it should be: the message's own words, if the evidence has them. */
export const wordsOf = (story) => story.chapters.find((one) => one.title === "What was written")?.rows[0];

export function startStories() {
  dialog.addEventListener("close", () => {
    if (location.hash.startsWith(PREFIX)) history.replaceState(null, "", location.pathname);
    const opener = document.querySelector(`[data-violation="${CSS.escape(asked)}"]`) ?? document.querySelector("[data-violation]");
    opener?.focus();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  addEventListener("hashchange", followAddress);
  followAddress();
}

function followAddress() {
  if (location.hash.startsWith(PREFIX)) openStory(location.hash.slice(PREFIX.length));
}

export async function openStory(id) {
  asked = id;
  show(id, h("p", { class: "quiet" }, "Reading the evidence …"));
  let answer;
  const before = kept.get(id);
  try {
    kept.delete(id); // it may have healed since
    answer = await readStory(id);
  } catch (error) {
    if (before) {
      kept.set(id, before);
      if (asked === id && dialog.open) show(id, told(before));
      return;
    }
    const why = error instanceof TypeError ? `nobody answers here any more; 'soak page ${run}' shows the run from its folder` : error.message;
    if (asked === id) show(id, h("p", { role: "alert" }, `The story cannot be shown: ${why}`));
    return;
  }
  if (asked === id && dialog.open) show(id, told(answer));
}

function show(id, content) {
  // The button stays when the story arrives, and with it the focus.
  const article = content.matches("article") ? content : h("article", {}, h("h2", { id: "story-title" }, `Violation ${id}`), content);
  const before = dialog.querySelector("article");
  if (before) before.replaceWith(article);
  else dialog.append(h("div", { class: "story" }, h("button", { type: "button", class: "close", "aria-label": "Close", click: () => dialog.close() }, "✕"), article));
  if (!dialog.open) {
    dialog.showModal();
    dialog.scrollTop = 0;
  }
  if (location.hash !== PREFIX + id) history.replaceState(null, "", PREFIX + id);
}

function told(story) {
  const facts = [["store", story.store], ["session", story.session], ["run", story.run], ["found", clock(story.found_at_wall_seconds)], ["id", story.id]];
  if (story.changed_at_wall_seconds) facts.splice(4, 0, [story.state, clock(story.changed_at_wall_seconds)]);
  const path = `/violations/${encodeURIComponent(story.id)}/evidence`;
  return h("article", {},
    h("p", { class: "badges" }, badge("bad", spaced(story.kind)), story.state === "open" ? badge("bad", "open") : badge("good", "healed")),
    h("h2", { id: "story-title", class: "mono" }, story.message),
    h("p", { class: "summary" }, story.summary),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    story.has_evidence ? h("p", {}, h("a", { class: "button", href: path, download: true }, "Download the evidence")) : null,
    story.chapters.map(chapter));
}

function chapter({ title, rows }) {
  if (rows.every((row) => row.is_code && !row.label)) return h("section", {}, h("h3", {}, title), code(rows.map((row) => row.text)));
  if (rows.some((row) => row.at_wall_seconds)) return h("section", {}, h("h3", {}, title), moments(rows));
  return h("section", {}, h("h3", {}, title), grouped(rows));
}

function moments(rows) {
  return h("ol", { class: "moments" }, rows.map((row) => h("li", { class: row.tone || "plain" },
    h("span", { class: "when" }, row.at_wall_seconds ? [clockMs(row.at_wall_seconds), h("span", { class: "note" }, `+${(row.after_seconds ?? 0).toFixed(3)} s`)] : ""),
    h("span", { class: "what" }, row.text))));
}

/** Rows with a name, rows without, and dumps, in the order in which they come. */
function grouped(rows) {
  const parts = [];
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at];
    if (row.is_code && !row.label) {
      const lines = [];
      while (at < rows.length && rows[at].is_code && !rows[at].label) lines.push(rows[at++].text);
      at -= 1;
      parts.push(code(lines));
    } else if (row.is_code) {
      parts.push(h("p", { class: "why" }, row.label), code([row.text]));
    } else {
      parts.push(h("p", { class: `line ${row.tone || ""}` }, row.label ? h("span", { class: "label" }, row.label) : null, h("span", {}, row.text)));
    }
  }
  return parts;
}

const code = (lines) => h("pre", { tabindex: "0" }, h("code", {}, lines.join("\n")));
