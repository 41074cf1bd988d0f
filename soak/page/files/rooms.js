// What is under test and who does the testing: stores and their contracts, coverage, the self-check, servers and processes.

import { badge, byId, draw, h, table } from "/page/dom.js";
import { clock, count, lasting, plural, spaced } from "/page/words.js";

/** Whether the contract of a store was kept, as far as anybody knows. */
function keeping(counted, contract, state, silentSince) {
  if (counted?.violations) return badge("bad", `broken: ${plural(counted.violations, "violation")}`);
  if (contract.unmet.length) return badge("bad", "cannot be kept");
  if (!counted?.verified) return badge("unsure", "nothing verified yet");
  if (state.end?.finished) return badge("good", state.end.verdict === "pass" ? "kept" : "no violation found");
  if (state.end || silentSince) return badge("unsure", "kept as far as it was read");
  return badge("good", "kept so far");
}

export function showStores(state, silentSince) {
  const verifier = state.soak.verifier;
  const stores = state.soak.stores.map((name) => ({
    name,
    counted: verifier?.by_store?.find((one) => one.store === name),
    contract: verifier?.contracts?.[name],
  }));
  const drifts = Object.entries(verifier?.configurations ?? {}).flatMap(([server, one]) =>
    Object.entries(one.drifted).map(([setting, now]) => `${server}: ${setting} is ${now || '""'}, it was ${one.at_the_beginning[setting] || '""'} when the run began`));
  const events = verifier?.events ?? [];
  draw(byId("stores-list"), { stores, drifts, events, end: state.end, silentSince }, () => [
    table("What was counted, by store", ["store", "violations", "acknowledged", "verified", "forgotten", "tolerated"].map(numeric), stores.map(({ name, counted }) => [
      name, ...["violations", "acknowledged", "verified", "released", "tolerated"].map((field) => ({ cell: counted ? count(counted[field]) : "not yet", class: field === "violations" && counted?.[field] ? "number bad" : "number" })),
    ]), { stacks: true }),
    stores.map(({ name, counted, contract }) => contract && h("details", { "data-key": `contract-${name}` },
      h("summary", { "data-key": `summary-${name}` }, `Contract of ${name} `, keeping(counted, contract, state, silentSince)),
      h("dl", { class: "facts" },
        Object.entries(contract.promises).map(([clause, text]) => h("div", {}, h("dt", {}, clause), h("dd", {}, text))),
        h("div", {}, h("dt", {}, "obtained"), h("dd", {}, contract.obtained))),
      contract.unmet.map((fact) => h("p", { class: "line bad" }, fact)))),
    h("h3", {}, "Configuration drift"),
    drifts.length ? h("ul", {}, drifts.map((line) => h("li", { class: "bad" }, line))) : h("p", { class: "quiet" }, state.end ? "The servers were configured as when the run began." : "The servers are configured as when the run began."),
    events.length ? h("details", { "data-key": "drift-events" }, h("summary", { "data-key": "summary-drift" }, plural(events.length, "event")),
      h("ul", {}, [...events].reverse().map((one) => h("li", {}, `${clock(one.at_wall_seconds)} ${one.text}`)))) : null,
  ]);
}

const numeric = (head, index) => (index === 0 ? head : { cell: head, class: "number" });

function clockError(one) {
  const error = one.error_seconds === null ? "not known" : `± ${(one.error_seconds * 1000).toFixed(1)} ms`;
  return one.is_uncertain ? `${error}, not judged` : error;
}

export function showWatch(state, silentSince) {
  const verifier = state.soak.verifier;
  if (!verifier) {
    draw(byId("watch-list"), null, () => h("p", { class: "quiet" }, state.end ? "Nothing was verified." : "The verifier has not answered yet."));
    return;
  }
  const isOver = Boolean(state.end || silentSince);
  const totals = verifier.totals;
  const facts = [
    ["read back", `${plural(totals.reads, "read")}, ${plural(totals.messages_read, "message")}`],
    ["sessions", isOver ? count(totals.sessions) : `${count(verifier.sessions_live)} live of ${count(totals.sessions)}`],
    ["last read", verifier.last_sweep_wall_seconds ? clock(verifier.last_sweep_wall_seconds) : "not yet"],
    ...(isOver ? [] : [["behind the ledger", lasting(verifier.ledger_lag_seconds)]]),
    ["oldest unverified", lasting(verifier.oldest_unverified_seconds)],
    [state.end?.finished ? "not decided" : "under investigation", plural(verifier.suspicions_open, "suspicion")],
    ["unknown writes never seen", count(totals.indeterminate)],
    ["unverifiable", count(totals.unverifiable)],
    ...(totals.undecided ? [["not judged: clocks", count(totals.undecided)]] : []),
    ...(verifier.clocks ?? []).map((one) => [`clock of ${one.host}`, clockError(one)]),
  ];
  const recalls = Object.entries(verifier.recalls ?? {});
  const ages = [...new Set(recalls.flatMap(([, times]) => Object.keys(times)))];
  const shards = verifier.shards ?? [];
  draw(byId("watch-list"), { facts, shards, canaries: verifier.canaries, recalls, isOver, silent: state.verifier_silent }, () => [
    state.verifier_silent ? h("p", { class: "quiet" }, `The verifier does not answer now. This is what it said at ${clock(verifier.at_wall_seconds)}.`) : null,
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("h3", {}, "Self-check (canary)"),
    verifier.canaries.length ? table("Planted errors, by store", ["store", "detected", "missed", "last detected", "self-check"].map((head, at) => (at === 1 || at === 2 ? numeric(head, at) : head)), verifier.canaries.map((one) => [
      one.store, { cell: count(one.detected), class: "number" }, { cell: count(one.missed + one.early), class: "number" },
      one.last_detected_wall_seconds ? clock(one.last_detected_wall_seconds) : isOver ? "never" : "not yet",
      { cell: one.missed + one.early ? badge("bad", "failed") : one.detected ? badge("good", "passed") : badge("unsure", isOver ? "not tested" : "not tested yet") },
    ]), { stacks: true }) : h("p", { class: "quiet" }, "It is off in this run."),
    shards.length ? [h("h3", {}, "Verifiers"), table("The verifiers that share the run", ["verifier", "verified", "not read yet", "violations", "live sessions", "state"].map((head, at) => (at >= 1 && at <= 4 ? numeric(head, at) : head)), shards.map((one) => [
      String(one.shard), ...[one.verified, one.unread, one.violations, one.sessions_live].map((value) => ({ cell: count(value), class: "number" })),
      { cell: one.is_heard ? badge(one.load_held_back ? "busy" : "good", one.load_held_back ? "holds the load back" : spaced(one.state)) : badge("bad", "not heard of") },
    ]), { stacks: true })] : null,
    ages.length ? [h("h3", {}, "Closed sessions read again"), table("Closed sessions read back, by their age", ["store", ...ages.map((age) => `after ${age}`)].map(numeric),
      recalls.map(([store, times]) => [store, ...ages.map((age) => ({ cell: count(times[age]), class: "number" }))]), { stacks: true })] : null,
  ]);
}

function stateOf(state, silentSince) {
  if (state === "ended") return badge("busy", "ended");
  if (state === "given") return badge("unsure", "external, not monitored");
  if (silentSince) return badge("unsure", "not known now");
  if (state === "running") return badge("good", "running");
  if (["starting", "waiting", "paused", "stopped"].includes(state)) return badge("busy", spaced(state));
  return badge("bad", spaced(state));
}

function restartsOf(server) {
  const all = server.restarts + server.planned_restarts;
  return all && server.planned_restarts ? [count(all), h("span", { class: "note" }, `${count(server.planned_restarts)} by faults`)] : count(all);
}

export function showProcesses(state, silentSince) {
  const { servers, children } = state.soak;
  draw(byId("processes-list"), { servers, children, silentSince }, () => [
    table("Servers", ["server", "state", { cell: "restarts", class: "number" }, "address"], servers.map((one) => [
      one.kind, { cell: stateOf(one.state, silentSince) }, { cell: restartsOf(one), class: "number" }, { cell: one.address, class: "mono" },
    ]), { stacks: true }),
    table("Processes of soak", ["process", "state", { cell: "restarts", class: "number" }, { cell: "pid", class: "number" }], children.map((one) => [
      one.name, { cell: stateOf(one.state, silentSince) }, { cell: count(one.restarts), class: "number" }, { cell: one.pid === null ? "none" : String(one.pid), class: "number mono" },
    ]), { stacks: true }),
  ]);
}
