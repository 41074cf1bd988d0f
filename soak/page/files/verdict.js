// The verdict, the numbers beside it, and what is said of the run at the top: live, not heard from, or over.

import { byId, draw, h } from "/page/dom.js";
import { capital, clock, count, lasting, plural, rate, ticking } from "/page/words.js";

const MARKS = {
  clean: "M5 13l4.500 4.500L19 7.500",
  violation: "M6.500 6.500l11 11m0-11l-11 11",
  threshold: "M12 5v9M12 18.400v.1",
  unsaid: "M8.500 9a3.600 3.600 0 1 1 5 3.300c-1 .45-1.500 1.100-1.500 2.200M12 18.400v.1",
  waiting: "M6 12h.1M12 12h.1M18 12h.1",
  interrupted: "M9 7v10M15 7v10",
};
const TITLES = { clean: "✓ clean", violation: "✗ violation", threshold: "! threshold missed", unsaid: "? cannot say", waiting: "… not live", interrupted: "‖ interrupted" };

function say(word, headline, reasons) {
  const section = byId("verdict");
  if (section.dataset.word !== word) section.dataset.word = word;
  draw(byId("mark"), word, () => h("svg", { viewBox: "0 0 24 24" }, h("path", { d: MARKS[word] })));
  // The live region is touched only when there is something new to hear.
  if (byId("headline").textContent !== headline) byId("headline").textContent = headline;
  draw(byId("reasons"), reasons, (lines) => lines.map((line) => h("li", {}, line)));
}

/** What was found stays found; what merely looked well when something was last heard must not look so now. */
export function showStanding(state, silentSince) {
  const { standing, end } = state;
  const reasons = standing.reasons.map(capital);
  if (end) reasons.push(...end.notes.map(capital), ending(end));
  if (!silentSince) {
    say(standing.word, standing.headline, reasons);
  } else if (standing.word === "violation") {
    say("violation", standing.headline, [...reasons, `All of this was found until ${clock(silentSince)} and is certain. What happened since is not known.`]);
  } else {
    say("waiting", `Not live since ${clock(silentSince)}`, [`It was: ${standing.headline.toLowerCase()}. What happened since is not known.`, ...reasons]);
  }
  document.title = `${TITLES[byId("verdict").dataset.word]} · soak ${state.soak.run}`;
}

const ending = (end) => (end.finished ? `Final: the run ended at ${clock(end.at_wall_seconds)} with the verdict ${end.verdict} (exit code ${end.exit_code}).`
  : `Last heard of at ${clock(end.at_wall_seconds)}. What was found until then is certain.`);

export function showSilence(silentSince) {
  const box = byId("lost");
  box.hidden = !silentSince;
  if (silentSince) box.textContent = `No answer since ${clock(silentSince)}, trying again. If the daemon is gone, 'soak page' shows the run from its folder.`;
}

export function showRun(state, silentSince) {
  const { soak, end } = state;
  const rows = [["run", soak.run]];
  if (end) {
    rows.push([end.finished ? "ended" : "interrupted", clock(end.at_wall_seconds)], ["lasted", ticking(end.lasted_seconds)]);
  } else if (silentSince) {
    rows.push(["phase", "not live"], ["last heard", clock(silentSince)], ["age", ticking(soak.active_seconds)]);
  } else {
    rows.push(["phase", soak.phase], ["age", ticking(soak.active_seconds)]);
    rows.push(soak.remaining_seconds === null ? ["ends", "when stopped"] : ["ends in", ticking(soak.remaining_seconds)]);
  }
  draw(byId("run"), rows, (pairs) => pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function showNumbers(state, latest, silentSince) {
  const { verifier, active_seconds: seconds } = state.soak;
  draw(byId("numbers"), [verifier?.totals, latest, verifier?.oldest_unverified_seconds, state.end, silentSince, Math.round(seconds)], () => {
    if (!verifier) return h("div", {}, h("dt", {}, "verified"), h("dd", {}, h("strong", {}, state.end ? "nothing" : "not yet"), h("span", {}, "the verifier has not answered")));
    const totals = verifier.totals;
    const tiles = [
      ["violations", count(totals.violations), `${count(totals.tolerated)} tolerated`, totals.violations ? "bad" : null],
      ["verified", count(totals.verified), `of ${count(totals.acknowledged)} acknowledged`],
      ...(state.end || silentSince ? past(state, totals, seconds) : live(verifier, latest)),
    ];
    return tiles.map(([name, value, note, css]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("strong", { class: css }, value), h("span", {}, note))));
  });
}

function live(verifier, latest) {
  const sum = (field) => (latest.length ? latest.reduce((all, point) => all + (point[field] ?? 0), 0) : null);
  return [
    ["appends", rate(sum("acknowledged_rate")), `reads ${rate(sum("read_rate"))}`],
    ["oldest unverified", lasting(verifier.oldest_unverified_seconds), plural(verifier.sessions_live, "live session")],
  ];
}

function past(state, totals, seconds) {
  const average = ["appends", rate(totals.acknowledged / Math.max(1, seconds)), "on average"];
  const { verifier } = state.soak;
  return [average, state.end?.finished ? ["read back", plural(totals.reads, "read"), plural(totals.sessions, "session")]
    : ["oldest unverified", lasting(verifier.oldest_unverified_seconds), "when last heard of"]];
}

export function showWarnings(state) {
  const lines = state.warnings;
  byId("warnings").hidden = lines.length === 0;
  draw(byId("warnings-list"), lines, (all) => h("ul", {}, all.map((line) => h("li", {}, capital(line)))));
}

export function showPlace(state) {
  const { soak, version, end } = state;
  const text = `soak ${version} · seed ${soak.seed} · namespace ${soak.namespace} · data in ${end?.data_dir ?? soak.data_dir}`;
  if (byId("place").textContent !== text) byId("place").textContent = text;
  byId("machines").hidden = end !== null;
}
