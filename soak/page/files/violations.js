// Findings: one card for each bug, with its numbers and its clearest example. Its single violations are behind a click,
// asked for only while they are shown.

import { get } from "/page/asking.js";
import { badge, breakable, byId, draw, h, table } from "/page/dom.js";
import { clock, count, percent, plural, spaced } from "/page/words.js";
import { openStory, readStory, rememberRun, wordsOf } from "/page/story.js";

const ASK_MS_MIN = 900;
const SHOWN_STEP = 15;
const QUOTED_MAX = 20; // findings whose example is read for its words
const filters = { store: byId("filter-store"), kind: byId("filter-kind"), state: byId("filter-state") };
/** By finding: its card, and its single violations as far as they were asked for. */
const cards = new Map();
let findings = [];
let foundVersion = null;
let isOver = false;

export function startViolations() {
  for (const select of Object.values(filters)) {
    select.addEventListener("change", () => {
      for (const card of cards.values()) Object.assign(card, { version: null, askedAt: 0, most: SHOWN_STEP });
      list();
    });
  }
}

/** After another daemon has answered, its numbers mean something else. */
export function forgetViolations() {
  for (const card of cards.values()) card.version = null;
}

function offer(select, values, shown = (value) => value) {
  const now = [...select.options].slice(1).map((option) => option.value);
  if (now.join("\n") === values.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(select.options[0], ...values.map((value) => h("option", { value }, shown(value))));
  select.value = values.includes(chosen) ? chosen : "";
}

export function showViolations(state) {
  foundVersion = state.found_version;
  rememberRun(state.soak.run);
  isOver = state.end !== null;
  // A verifier that does not answer takes nothing back of what it has found.
  if (state.soak.verifier) findings = state.soak.verifier.findings ?? [];
  offer(filters.store, state.soak.stores);
  offer(filters.kind, [...new Set(findings.map((one) => one.kind))].sort(), spaced);
  list();
}

function isWanted(one) {
  const { store, kind, state } = filters;
  return [one.store, ""].includes(store.value) && [one.kind, ""].includes(kind.value) && (!state.value || one[state.value] > 0);
}

function list() {
  const container = byId("violations-list");
  const wanted = findings.filter(isWanted);
  byId("filters").hidden = findings.length < 2;
  draw(container, [isOver, ...wanted.map((one) => one.id)], () => {
    if (wanted.length === 0) return h("p", { class: "quiet" }, findings.length ? "None that fits." : isOver ? "None." : "None found so far.");
    return wanted.map((one) => cardOf(one.id).node);
  });
  for (const one of wanted) {
    const card = cardOf(one.id);
    card.finding = one;
    quote(card);
    draw(card.head, { one, words: card.words }, head);
    draw(card.summary, one.count, (many) => (many === 1 ? "The single violation" : `All ${count(many)} violations`));
    if (card.details.open) fill(card);
  }
}

function cardOf(id) {
  if (cards.has(id)) return cards.get(id);
  const card = { id, head: h("div", {}), summary: h("summary", { "data-key": `singles-${id}` }), listing: h("div", { class: "singles" }), most: SHOWN_STEP, version: null, askedAt: 0 };
  card.details = h("details", { "data-key": `all-${id}`, toggle: () => { if (card.details.open) fill(card); } }, card.summary, card.listing);
  card.node = h("article", { class: "finding", "data-finding": id }, card.head, card.details);
  cards.set(id, card);
  return card;
}

/** Read the words of a finding's example; they are asked for once. */
async function quote(card) {
  const { id, has_evidence: has } = card.finding.example;
  if (!has || card.quoted === id || [...cards.values()].filter((one) => one.quoted).length >= QUOTED_MAX) return;
  card.quoted = id;
  try {
    card.words = wordsOf(await readStory(id));
    list();
  } catch {
    card.quoted = undefined; // asked again with the next state
  }
}

function head({ one, words }) {
  const facts = [
    ["count", count(one.count)],
    ["share", one.acknowledged ? percent(one.count / one.acknowledged) : "not known"],
    ["sessions", `${one.sessions_at_least ? "at least " : ""}${count(one.sessions)}`],
    ["open", count(one.open)],
    ["healed", count(one.healed)],
    ["first", clock(one.first_wall_seconds)],
    ["last", clock(one.last_wall_seconds)],
  ];
  return [
    h("h3", {}, badge("bad", spaced(one.kind)), h("span", {}, breakable(one.headline))),
    h("dl", { class: "tally" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    words ? h("blockquote", {}, h("p", {}, words.text), h("p", { class: "who" }, `${words.label}: `, explain(one))) : h("p", {}, "Clearest example: ", explain(one)),
  ];
}

const explain = (one) => link(one.example.id, one.example.message, `, ${spaced(one.kind)} on ${one.store}: explain`, "example");

function link(id, message, unseen, place) {
  return h("button", { type: "button", class: "link", "data-key": `${place}-${id}`, "data-violation": id, click: () => openStory(id) },
    h("span", { class: "mono" }, message), h("span", { class: "unseen" }, unseen));
}

async function fill(card) {
  if (card.version === foundVersion || card.isAsking || Date.now() - card.askedAt < ASK_MS_MIN) return;
  const state = filters.state.value;
  Object.assign(card, { isAsking: true, askedAt: Date.now() });
  try {
    const told = await get(`/violations?${new URLSearchParams({ finding: card.id, state })}`);
    if (state !== filters.state.value) return; // another state was chosen meanwhile; the next look asks for it
    Object.assign(card, { version: told.version, violations: told.violations });
    singles(card);
  } catch {
    // The connection says by itself that it is lost; the list is asked for again when it is back.
    if (!card.violations) draw(card.listing, "unheard", () => h("p", { class: "quiet" }, `Nobody answers here. 'soak violations --finding ${card.id}' lists them.`));
  } finally {
    card.isAsking = false;
  }
}

const row = (one) => ({ attributes: { "data-id": one.id }, cells: [
  { cell: [link(one.id, one.message, ": explain", "single"), h("span", { class: "note" }, one.detail)] },
  { cell: one.state === "open" ? badge("bad", "open") : badge("good", "healed") },
  { cell: clock(one.found_at_wall_seconds), class: "number" },
] });

function singles(card) {
  const { violations, finding } = card;
  draw(card.listing, { violations, most: card.most }, () => {
    if (violations.length === 0) return h("p", { class: "quiet" }, "None that fits.");
    const shown = violations.slice(0, card.most);
    const left = violations.length - shown.length;
    const isCut = !filters.state.value && finding.count > violations.length;
    const more = () => { card.most += SHOWN_STEP; singles(card); };
    return [
      h("p", { class: "quiet" }, isCut ? `The newest ${count(violations.length)} of ${count(finding.count)}; soak violations --finding ${card.id} lists all.` : `${plural(violations.length, "violation")}, the newest first.`),
      table(`Violations of finding ${card.id}, the newest first`, ["message", "state", { cell: "found", class: "number" }], shown.map(row), { stacks: true }),
      left > 0 ? h("p", {}, h("button", { type: "button", "data-key": `more-${card.id}`, click: more }, `Show ${Math.min(left, SHOWN_STEP)} more`)) : null,
    ];
  });
}
