// What is under test and who does the testing: stores and their contracts, coverage, the self-check, servers and processes.

import { badge, byId, draw, h, table } from "/page/dom.js";
import { clock, count, lasting, plural, spaced } from "/page/words.js";

export function showStores(state) {
  const verifier = state.soak.verifier;
  const stores = state.soak.stores.map((name) => ({
    name,
    counted: verifier?.by_store?.find((one) => one.store === name),
    contract: verifier?.contracts?.[name],
  }));
  const drifts = Object.entries(verifier?.configurations ?? {}).flatMap(([server, one]) =>
    Object.entries(one.drifted).map(([setting, now]) => `${server}: ${setting} is ${now || '""'}, it was ${one.at_the_beginning[setting] || '""'} when the run began`));
  const events = verifier?.events ?? [];
  draw(byId("stores-list"), { stores, drifts, events }, () => [
    table("What was counted, by store", ["store", "acknowledged", "verified", "forgotten", "violations", "tolerated"].map(numeric), stores.map(({ name, counted }) => [
      name, ...["acknowledged", "verified", "released", "violations", "tolerated"].map((field) => ({ cell: counted ? count(counted[field]) : "–", class: "number" })),
    ])),
    stores.map(({ name, contract }) => contract && h("details", { "data-key": `contract-${name}` },
      h("summary", { "data-key": `summary-${name}` }, `Contract of ${name} `, contract.unmet.length ? badge("bad", "cannot be kept") : badge("good", "can be kept")),
      h("dl", { class: "facts" },
        Object.entries(contract.promises).map(([clause, text]) => h("div", {}, h("dt", {}, clause), h("dd", {}, text))),
        h("div", {}, h("dt", {}, "obtained"), h("dd", {}, contract.obtained))),
      contract.unmet.map((fact) => h("p", { class: "line bad" }, fact)))),
    h("h3", {}, "Configuration drift"),
    drifts.length ? h("ul", {}, drifts.map((line) => h("li", { class: "bad" }, line))) : h("p", { class: "quiet" }, "The servers are configured as when the run began."),
    events.length ? h("details", { "data-key": "drift-events" }, h("summary", { "data-key": "summary-drift" }, plural(events.length, "event")),
      h("ul", {}, [...events].reverse().map((one) => h("li", {}, `${clock(one.at_wall_seconds)} ${one.text}`)))) : null,
  ]);
}

const numeric = (head, index) => (index === 0 ? head : { cell: head, class: "number" });

export function showWatch(state) {
  const verifier = state.soak.verifier;
  if (!verifier) {
    draw(byId("watch-list"), null, () => h("p", { class: "quiet" }, "The verifier does not answer."));
    return;
  }
  const totals = verifier.totals;
  const facts = [
    ["read back", `${plural(totals.reads, "read")}, ${plural(totals.messages_read, "message")}`],
    ["sessions", `${count(verifier.sessions_live)} live of ${count(totals.sessions)}`],
    ["last read", clock(verifier.last_sweep_wall_seconds)],
    ["behind the ledger", lasting(verifier.ledger_lag_seconds)],
    ["oldest unverified", lasting(verifier.oldest_unverified_seconds)],
    ["under investigation", plural(verifier.suspicions_open, "suspicion")],
    ["unknown writes never seen", count(totals.indeterminate)],
    ["unverifiable", count(totals.unverifiable)],
  ];
  const recalls = Object.entries(verifier.recalls ?? {});
  const ages = [...new Set(recalls.flatMap(([, times]) => Object.keys(times)))];
  draw(byId("watch-list"), { facts, canaries: verifier.canaries, recalls }, () => [
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("h3", {}, "Self-check (canary)"),
    verifier.canaries.length ? table("Planted errors, by store", ["store", "detected", "missed", "last detected", "self-check"].map((head, at) => (at === 1 || at === 2 ? numeric(head, at) : head)), verifier.canaries.map((one) => [
      one.store, { cell: count(one.detected), class: "number" }, { cell: count(one.missed + one.early), class: "number" },
      clock(one.last_detected_wall_seconds),
      { cell: one.missed + one.early ? badge("bad", "failed") : one.detected ? badge("good", "passed") : badge("unsure", "not tested yet") },
    ])) : h("p", { class: "quiet" }, "It is off in this run."),
    ages.length ? [h("h3", {}, "Closed sessions read again"), table("Closed sessions read back, by their age", ["store", ...ages.map((age) => `after ${age}`)].map(numeric),
      recalls.map(([store, times]) => [store, ...ages.map((age) => ({ cell: count(times[age]), class: "number" }))]))] : null,
  ]);
}

function stateOf(state) {
  if (state === "running") return badge("good", "running");
  if (state === "given") return badge("unsure", "external, not monitored");
  if (["starting", "waiting", "paused", "stopped"].includes(state)) return badge("busy", spaced(state));
  return badge("bad", spaced(state));
}

export function showProcesses(state) {
  const { servers, children } = state.soak;
  draw(byId("processes-list"), { servers, children }, () => [
    table("Servers", ["server", "state", { cell: "restarts", class: "number" }, "address"], servers.map((one) => [
      one.kind, { cell: stateOf(one.state) }, { cell: count(one.restarts), class: "number" }, { cell: one.address, class: "mono" },
    ])),
    table("Processes of soak", ["process", "state", { cell: "restarts", class: "number" }, "pid"], children.map((one) => [
      one.name, { cell: stateOf(one.state) }, { cell: count(one.restarts), class: "number" }, { cell: String(one.pid ?? "–"), class: "mono" },
    ])),
  ]);
}
