// The verdict so far, the numbers beside it, and what is said of the run at the top.

import { byId, draw, h } from "/page/dom.js";
import { capital, clock, count, lasting, plural, rate, ticking } from "/page/words.js";

const MARKS = {
  clean: "M5 13l4.500 4.500L19 7.500",
  violation: "M6.500 6.500l11 11m0-11l-11 11",
  unsaid: "M8.500 9a3.600 3.600 0 1 1 5 3.300c-1 .45-1.500 1.100-1.500 2.200M12 18.400v.1",
  waiting: "M6 12h.1M12 12h.1M18 12h.1",
};
const TITLES = { clean: "✓ clean", violation: "✗ violation", unsaid: "? cannot say", waiting: "… not live" };

function say(word, headline, reasons) {
  const section = byId("verdict");
  if (section.dataset.word !== word) section.dataset.word = word;
  draw(byId("mark"), word, () => h("svg", { viewBox: "0 0 24 24" }, h("path", { d: MARKS[word] })));
  // The live region is touched only when there is something new to hear.
  if (byId("headline").textContent !== headline) byId("headline").textContent = headline;
  draw(byId("reasons"), reasons, (lines) => lines.map((line) => h("li", {}, line)));
}

export function showStanding(state) {
  const { word, headline, reasons } = state.standing;
  say(word, headline, reasons.map(capital));
  document.title = `${TITLES[word]} · soak ${state.soak.run}`;
}

/** What was true when something was last heard must not look as if it were true now. */
export function showSilence(sinceMs, last) {
  const since = clock(sinceMs / 1000);
  const box = byId("lost");
  box.hidden = false;
  box.textContent = `Connection lost since ${since}, trying again`;
  if (!last) return;
  say("waiting", "Not live", [`At ${since} it was: ${last.standing.headline.toLowerCase()}. Nothing is known since then.`]);
  document.title = `${TITLES.waiting} · soak ${last.soak.run}`;
}

export function hideSilence() {
  byId("lost").hidden = true;
}

const ENDS = { pass: ["clean", "Pass"], violation: ["violation", "Violation"], inconclusive: ["unsaid", "Inconclusive"] };

export function showEnd(end) {
  const [word, name] = ENDS[end.verdict] || ["unsaid", capital(end.verdict)];
  const ended = end.finished ? "the run has ended" : "quit before everything was verified";
  const reasons = [...end.reasons.map(capital), ...(end.tried ? [capital(end.tried)] : []), ...end.notes.map(capital),
    `Exit code ${end.exit_code}. The daemon has exited; the results are in ${end.data_dir}.`];
  hideSilence();
  say(word, `${name}: ${ended}`, reasons);
  document.title = `${name} · soak ${end.run}`;
}

export function showRun(state) {
  const { soak } = state;
  const rows = [["run", soak.run], ["phase", soak.phase], ["age", ticking(soak.active_seconds)]];
  rows.push(["ends in", soak.remaining_seconds === null ? "when stopped" : ticking(soak.remaining_seconds)]);
  draw(byId("run"), rows, (pairs) => pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function showNumbers(state, latest) {
  const verifier = state.soak.verifier;
  const totals = verifier?.totals;
  const sum = (field) => (latest.length ? latest.reduce((all, point) => all + (point[field] ?? 0), 0) : null);
  const tiles = [
    ["verified", totals ? count(totals.verified) : "–", totals ? `of ${count(totals.acknowledged)} acknowledged` : ""],
    ["violations", totals ? count(totals.violations) : "–", totals ? `${count(totals.tolerated)} tolerated` : ""],
    ["appends", rate(sum("acknowledged_rate")), `reads ${rate(sum("read_rate"))}`],
    ["oldest unverified", lasting(verifier?.oldest_unverified_seconds), verifier ? plural(verifier.sessions_live, "live session") : ""],
  ];
  draw(byId("numbers"), tiles, (all) => all.map(([name, value, note]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, h("strong", {}, value), h("span", {}, note)))));
}

export function showWarnings(state) {
  const { warnings, not_ready: missing, phase } = state.soak;
  const lines = [...warnings, ...(phase === "running" ? missing : [])];
  byId("warnings").hidden = lines.length === 0;
  draw(byId("warnings-list"), lines, (all) => h("ul", {}, all.map((line) => h("li", {}, capital(line)))));
}

export function showPlace(state) {
  const { soak, version } = state;
  const text = `soak ${version} · seed ${soak.seed} · namespace ${soak.namespace} · data in ${soak.data_dir}`;
  if (byId("place").textContent !== text) byId("place").textContent = text;
}
