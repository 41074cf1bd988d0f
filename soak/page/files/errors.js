// Exceptions that stores raised, one row for each kind: a typo in a store of one's own shows here first. That a store was
// not there, as in every fault, stands further down.

import { badge, byId, draw, h, table } from "/page/dom.js";
import { clock, count, plural } from "/page/words.js";

const NATURES = { defect: ["bad", "programming error"], unavailable: ["unsure", "unavailable"], other: ["unsure", "other"] };

export function showErrors(state) {
  const errors = state.soak.verifier?.store_errors ?? [];
  const own = errors.filter((one) => one.nature !== "unavailable");
  const unavailable = errors.filter((one) => one.nature === "unavailable");
  byId("errors").hidden = own.length === 0;
  draw(byId("errors-list"), own, () => listed("Store errors", own));
  draw(byId("unavailable-list"), unavailable, () => (unavailable.length === 0 ? h("p", { class: "quiet" }, "Every call was answered.")
    : h("details", { "data-key": "unavailable" }, h("summary", { "data-key": "summary-unavailable" }, `${plural(unavailable.reduce((all, one) => all + one.count, 0), "call")} found a store unavailable`),
      listed("Calls that found a store unavailable", unavailable))));
}

const listed = (caption, errors) => table(caption, ["exception", "place", "nature", { cell: "count", class: "number" }, { cell: "last", class: "number" }], errors.map((one) => [
  { cell: h("span", { class: "mono" }, `${one.store}: ${one.operation} raised ${one.type}${one.text ? `: ${one.text}` : ""}`) },
  { cell: one.place || "not known", class: "mono" },
  { cell: badge(...(NATURES[one.nature] ?? NATURES.other)) },
  { cell: count(one.count), class: "number" },
  { cell: clock(one.last_wall_seconds), class: "number" },
]), { stacks: true });
