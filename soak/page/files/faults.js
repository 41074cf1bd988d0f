// Faults: under way, past and next, what each took, and whether that is inside what is promised.

import { badge, byId, draw, h, table } from "/page/dom.js";
import { clock, count, lasting, plural, spaced, ticking } from "/page/words.js";

const SHOWN_MAX = 30;

/** Everything that broke, planned or not, the newest first: one entry a fault, with what it took of each store. */
export function collectFaults(soak) {
  const recoveries = soak.verifier?.recoveries ?? [];
  const known = new Map();
  for (const one of soak.faults_recent) {
    known.set(one.fault || `${one.name}-${one.target}-${one.began_wall_seconds}`, {
      name: one.name, target: one.target, by: ["hand", "schedule"].includes(one.by) ? `by ${one.by}` : one.by, state: one.state,
      began: one.began_wall_seconds, hold: one.hold_seconds, lasted: one.lasted_seconds, reason: one.reason, taken: [],
    });
  }
  for (const one of recoveries) {
    if (!known.has(one.fault)) {
      known.set(one.fault, {
        name: one.kind, target: one.server, by: one.planned ? "planned" : "unplanned", state: "healed",
        began: one.at_wall_seconds, lasted: one.lasted_seconds, reason: "", taken: [],
      });
    }
    known.get(one.fault).taken.push(one);
  }
  return [...known.values()].sort((one, other) => other.began - one.began);
}

function stateOf(fault) {
  if (fault.state === "active") return badge("fault", `active, ${fault.by}`);
  if (fault.state === "failed") return badge("bad", "failed");
  if (fault.state === "cut off") return badge("unsure", "interrupted");
  return badge("good", `healed after ${lasting(fault.lasted)}`);
}

function point(one) {
  const least = one.is_at_least || one.is_unread ? "at least " : "";
  const seconds = one.point_seconds + one.after_seconds; // as in the report: from the oldest that is gone to the newest
  const lost = seconds > 0 ? `${least}${lasting(seconds)}` : one.is_unread ? "not known" : "nothing";
  const promised = one.promised_seconds === null ? "anything may be lost" : one.promised_seconds === 0 ? "nothing may be lost" : `${lasting(one.promised_seconds)} allowed`;
  return [h("strong", {}, lost), h("span", { class: "note" }, promised)];
}

function rowsOf(fault, isOver) {
  const head = [h("strong", {}, spaced(fault.name)), " of ", fault.target, h("span", { class: "note" }, `${clock(fault.began)}, ${fault.by}`)];
  const replaced = fault.taken.find((one) => one.replaced)?.replaced;
  if (replaced) {
    head.push(h("span", { class: "note" }, `primary ${replaced.before} before, ${replaced.after} after ${replaced.seconds.toFixed(1)} s${replaced.stayed ? "" : "; no client stayed with the old one"}`));
    if (replaced.stayed) head.push(badge("unsure", `${plural(replaced.stayed, "client connection")} stayed with the old primary for up to ${lasting(replaced.stayed_seconds)}`), h("span", { class: "note" }, replaced.clients.join(", ")));
  }
  if (fault.taken.length === 0) {
    const told = fault.state === "active" ? "under way" : fault.state === "failed" ? fault.reason : isOver ? "not measured" : "being measured";
    return [{ cells: [{ cell: head }, { cell: stateOf(fault) }, { cell: told, colspan: 6 }] }];
  }
  return fault.taken.map((one, index) => ({ cells: [
    { cell: index === 0 ? head : h("span", { class: "note" }, `${spaced(fault.name)} of ${fault.target}`) },
    { cell: index === 0 ? stateOf(fault) : "" },
    one.store,
    { cell: point(one) },
    { cell: after(one.read_seconds), class: "number" },
    { cell: after(one.write_seconds), class: "number" },
    { cell: one.unknown ? `${one.unknown} (${one.surfaced} seen later)` : "0", class: "number" },
    { cell: one.kept && one.is_unread ? badge("fault", "not all read") : one.kept ? badge("good", "kept") : badge("bad", `${plural(one.lost, "message")} lost`) },
  ] }));
}

const after = (seconds) => (seconds === null ? "not seen" : lasting(seconds));

/** What is under way and what comes next, always in one line: a fault moves nothing on the page. */
function nowOf(soak, next) {
  if (soak.faults_active.length) return [badge("fault", "active"), soak.faults_active.map(spaced).join(", ")];
  const [recovering] = soak.verifier?.recovering ?? [];
  if (recovering) return [badge("busy", "recovering"), `${recovering.store} waits for its first ${recovering.awaits.join(" and ")} after ${spaced(recovering.kind)} of ${recovering.server}`];
  if (!next) return [badge("good", "none active"), "none is scheduled"];
  const when = next.in_seconds > 0 ? `in ${ticking(next.in_seconds)}` : "as soon as the servers are well";
  return [badge("busy", "next"), `${spaced(next.name)} of ${next.target} ${when}, held for ${lasting(next.hold_seconds)}`];
}

export function showFaults(state, silentSince) {
  const { soak, end } = state;
  const isOver = Boolean(end || silentSince);
  const faults = collectFaults(soak).slice(0, SHOWN_MAX);
  const next = soak.fault_next && { ...soak.fault_next, in_seconds: Math.floor(soak.fault_next.in_seconds) };
  const now = isOver ? null : nowOf(soak, next);
  const spared = soak.faults_skipped ? `${count(soak.faults_skipped)} of ${count(soak.faults_scheduled)} scheduled faults did not fit` : "";
  // From the start as high as with many faults, where any are to come.
  byId("faults-list").classList.toggle("steady", !isOver && (faults.length > 0 || next !== null));
  draw(byId("faults-list"), { faults, isOver, spared, now: now?.at(1), badge: now?.[0].textContent }, () => [
    now ? h("p", { class: "next" }, now, spared ? ` (${spared})` : "") : spared ? h("p", { class: "quiet" }, `${spared}.`) : null,
    faults.length ? table("Faults and their effect", ["fault", "state", "store", "data lost (RPO)", "reads back (RTO)", "writes back", "unknown writes", "contract"], faults.flatMap((fault) => rowsOf(fault, isOver)), { stacks: true })
      : h("p", { class: "quiet" }, end ? "No faults." : "No faults so far."),
  ]);
}
