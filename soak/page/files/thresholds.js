// Thresholds: what the run has to stay below, and what was measured so far.

import { badge, byId, draw, h } from "/page/dom.js";

const TONES = { met: "good", missed: "bad" };

export function showThresholds(state) {
  const thresholds = state.soak.verifier?.thresholds ?? [];
  byId("thresholds").hidden = thresholds.length === 0;
  draw(byId("thresholds-list"), thresholds, (all) => h("ul", { class: "thresholds" }, all.map((one) => h("li", {}, badge(TONES[one.state] ?? "unsure", one.state), " ", one.line))));
}
