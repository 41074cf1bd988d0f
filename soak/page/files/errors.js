// Exceptions that stores raised, one row for each kind: a typo in a store of one's own shows here first.

import { badge, byId, draw, h, table } from "/page/dom.js";
import { clock, count } from "/page/words.js";

const NATURES = { defect: ["bad", "programming error"], unavailable: ["unsure", "unavailable"], other: ["unsure", "other"] };

export function showErrors(state) {
  const errors = state.soak.verifier?.store_errors;
  if (!errors) return;
  byId("errors").hidden = errors.length === 0;
  draw(byId("errors-list"), errors, () => table("Store errors", ["exception", "nature", { cell: "count", class: "number" }, { cell: "last", class: "number" }], errors.map((one) => [
    { cell: h("span", { class: "mono" }, one.line) },
    { cell: badge(...(NATURES[one.nature] ?? NATURES.other)) },
    { cell: count(one.count), class: "number" },
    { cell: clock(one.last_wall_seconds), class: "number" },
  ]), { stacks: true }));
}
