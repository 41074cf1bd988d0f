// The list of violations: the newest first, as the daemon keeps them, asked for again whenever it has changed.

import { get } from "/page/asking.js";
import { badge, byId, draw, forget, h, table } from "/page/dom.js";
import { clock, count, plural, spaced } from "/page/words.js";
import { openStory } from "/page/story.js";

const ASK_MS_MIN = 900;
const SHOWN_STEP = 15;
const filters = { store: byId("filter-store"), kind: byId("filter-kind"), state: byId("filter-state") };
let shownVersion = null;
let askedAt = 0;
let isAsking = false;
let most = SHOWN_STEP;

export function startViolations() {
  for (const select of Object.values(filters)) select.addEventListener("change", () => { shownVersion = null; askedAt = 0; most = SHOWN_STEP; fill(); });
}

/** After another daemon has answered, its numbers mean something else. */
export function forgetViolations() {
  shownVersion = null;
}

function offer(select, values) {
  const now = [...select.options].slice(1).map((option) => option.value);
  if (now.join("\n") === values.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(select.options[0], ...values.map((value) => h("option", { value }, spaced(value))));
  select.value = values.includes(chosen) ? chosen : "";
}

let last = null;

export function showViolations(state) {
  last = state;
  const found = state.soak.verifier?.violations_by ?? [];
  offer(filters.store, state.soak.stores);
  if (state.soak.verifier) offer(filters.kind, [...new Set(found.map((one) => one.kind))].sort());
  if (state.found_version !== shownVersion) fill();
}

const chosen = () => new URLSearchParams(Object.entries(filters).map(([name, select]) => [name, select.value])).toString();

async function fill() {
  if (isAsking || Date.now() - askedAt < ASK_MS_MIN) return;
  isAsking = true;
  askedAt = Date.now();
  const wanted = chosen();
  try {
    const told = await get(`/violations?${wanted}`);
    if (wanted !== chosen()) return; // something else was chosen meanwhile; the next state asks for it
    shownVersion = told.version;
    list(told.violations);
  } catch {
    // The connection says by itself that it is lost; the list is asked for again when it is back.
  } finally {
    isAsking = false;
  }
}

function total() {
  return (last?.soak.verifier?.violations_by ?? [])
    .filter((one) => [one.store, ""].includes(filters.store.value) && [one.kind, ""].includes(filters.kind.value))
    .reduce((sum, one) => sum + one.count, 0);
}

function row(one) {
  const open = h("button", { type: "button", class: "link", "data-key": one.id, "data-violation": one.id, click: () => openStory(one.id) },
    h("span", { class: "mono" }, one.message), h("span", { class: "unseen" }, `, ${spaced(one.kind)} on ${one.store}: explain`));
  return { attributes: { "data-id": one.id }, cells: [
    { cell: [open, h("span", { class: "note" }, one.detail)] },
    { cell: badge("bad", spaced(one.kind)) },
    one.store,
    one.cause,
    { cell: one.state === "open" ? badge("bad", "open") : badge("good", "healed") },
    { cell: clock(one.found_at_wall_seconds), class: "number" },
  ] };
}

function list(violations) {
  const container = byId("violations-list");
  if (violations.length === 0) forget(container);
  draw(container, violations, () => {
    if (violations.length === 0) {
      const isFiltered = Object.values(filters).some((select) => select.value);
      return h("p", { class: "quiet" }, isFiltered ? "None that fits." : "None found so far.");
    }
    const shown = violations.slice(0, most);
    const left = violations.length - shown.length;
    const all = filters.state.value ? 0 : total();
    const more = all > violations.length ? `The newest ${count(violations.length)} of ${count(all)} (soak violations lists all of them)` : plural(violations.length, "violation");
    return [
      h("p", { class: "quiet" }, `${more}. Choose one for its story.`),
      table("Violations, the newest first", ["message", "kind", "store", "probable cause", "state", { cell: "found", class: "number" }], shown.map(row), { stacks: true }),
      left > 0 ? h("p", {}, h("button", { type: "button", "data-key": "more", click: () => { most += SHOWN_STEP; forget(container); list(violations); } }, `Show ${Math.min(left, SHOWN_STEP)} more`)) : null,
    ];
  });
}
