// What may be done from here: break a server for a while, or stop. Each is asked about before it is done.

import { get, post } from "/page/asking.js";
import { byId, draw, forget, h } from "/page/dom.js";
import { capital, lasting, parseLasting, spaced } from "/page/words.js";

const KEPT_AS = "soak-token";
const CODE = "#code=";
const question = byId("question");
const session = { permitted: false, local: true };
let faults = [];
let chosen = { target: "", fault: "", hold: "5s" };
let last = null;

const token = () => sessionStorage.getItem(KEPT_AS) ?? "";

const proof = () => ({ "X-Soak-Token": token() });

async function act(path, body = {}) {
  try {
    return await post(path, body, proof());
  } catch (error) {
    if (error.status === 401) await refreshSession(); // the daemon is another one by now
    throw error;
  }
}

const tell = (text) => { byId("answer").textContent = text; };

export async function startActions() {
  addEventListener("hashchange", takeCode);
  await takeCode();
  await refreshSession();
}

/** A link from the terminal brings a code that is good once; it does not stay in the address. */
async function takeCode() {
  if (!location.hash.startsWith(CODE)) return;
  const code = location.hash.slice(CODE.length);
  history.replaceState(null, "", location.pathname);
  try {
    sessionStorage.setItem(KEPT_AS, (await post("/session", { code }, {})).token);
    tell("");
  } catch (error) {
    tell(`${capital(error.message)}.`);
  }
  await refreshSession();
}

export async function refreshSession() {
  try {
    Object.assign(session, await get("/session", proof()));
    faults = await get("/faults");
  } catch {
    return; // asked again when the connection is back
  }
  if (last) showActions(last);
}

let phase = "";

export function showActions(state) {
  last = state;
  const { end } = state;
  byId("actions-title").textContent = end ? "Look again" : "Inject a fault, or stop";
  if (end) {
    tell("");
    draw(byId("actions-list"), end.commands, (commands) => h("dl", { class: "facts" }, Object.entries(commands).map(([what, command]) =>
      h("div", {}, h("dt", {}, what), h("dd", {}, h("code", {}, command))))));
    return;
  }
  if (state.soak.phase !== phase) {
    phase = state.soak.phase;
    refreshSession(); // which faults are possible is known once the servers run
  }
  const targets = state.soak.servers.map((one) => one.kind).filter((kind) => faults.some((one) => kind in one.targets));
  if (!targets.includes(chosen.target)) chosen.target = targets[0] ?? "";
  draw(byId("actions-list"), { session, targets, faults, phase, why: state.why_no_faults }, () => build(state, targets));
}

function build(state, targets) {
  if (!session.local) return h("p", { class: "quiet" }, "Read-only view. Faults are injected and the soak is stopped from the machine that soak runs on, at 127.0.0.1 or localhost.");
  if (!session.permitted) return permission();
  if (phase !== "running") return h("p", { class: "quiet" }, phase === "draining" ? "Draining: everything is verified again, then the verdict is given." : `The soak is ${phase}.`);
  return [breaking(state, targets), stopping()];
}

function permission() {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", "data-key": "token" });
  const use = async (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEPT_AS, field.value.trim());
    await refreshSession();
    if (session.permitted) return;
    sessionStorage.removeItem(KEPT_AS);
    tell("This is not the token of this run.");
  };
  return [
    h("p", {}, "Read-only view. For a control link, run ", h("code", {}, "soak page"), " on this machine, or enter the token from run.json in the data folder."),
    h("form", { class: "row", submit: use }, h("label", { for: "token" }, "Token"), field, h("button", { type: "submit" }, "Use it")),
  ];
}

function breaking(state, targets) {
  if (state.why_no_faults) return h("p", { class: "quiet" }, `${capital(state.why_no_faults)}.`);
  if (targets.length === 0) return h("p", { class: "quiet" }, "No fault is possible on the servers of this run.");
  const possible = faults.filter((one) => chosen.target in one.targets);
  if (!possible.some((one) => one.fault === chosen.fault && one.targets[chosen.target] === null)) {
    chosen.fault = possible.find((one) => one.targets[chosen.target] === null)?.fault ?? "";
  }
  const again = () => { forget(byId("actions-list")); showActions(last); };
  const target = h("select", { id: "target", "data-key": "target", change: () => { chosen.target = target.value; again(); } },
    targets.map((kind) => h("option", { value: kind, selected: kind === chosen.target }, kind)));
  const fault = h("select", { id: "fault", "data-key": "fault", "aria-describedby": "fault-means", change: () => { chosen.fault = fault.value; again(); } },
    possible.map((one) => h("option", { value: one.fault, selected: one.fault === chosen.fault, disabled: one.targets[chosen.target] !== null },
      spaced(one.fault) + (one.targets[chosen.target] === null ? "" : " (not possible here)"))));
  const hold = h("input", { id: "hold", "data-key": "hold", value: chosen.hold, size: "6", inputmode: "text", autocomplete: "off", input: () => { chosen.hold = hold.value; } });
  const submit = (event) => { event.preventDefault(); inject(); };
  const impossible = possible.filter((one) => one.targets[chosen.target] !== null);
  return h("form", { submit },
    h("div", { class: "row" },
      [["target", "Server", target], ["fault", "Fault", fault], ["hold", "For", hold]].map(([id, label, field]) =>
        h("span", { class: "field" }, h("label", { for: id }, label), field)),
      h("button", { type: "submit", "data-key": "inject", disabled: chosen.fault === "" }, "Inject …")),
    h("p", { class: "note", id: "fault-means" }, possible.find((one) => one.fault === chosen.fault)?.description ?? "None is possible here."),
    impossible.length ? h("details", { "data-key": "impossible" }, h("summary", { "data-key": "summary-impossible" }, `${impossible.length} faults are not possible here`),
      h("dl", { class: "facts reasons-why" }, impossible.map((one) => h("div", {}, h("dt", {}, spaced(one.fault)), h("dd", {}, one.targets[chosen.target]))))) : null);
}

async function inject() {
  const seconds = parseLasting(chosen.hold);
  if (Number.isNaN(seconds)) {
    tell(`"${chosen.hold}" is no duration; write one like 5s or 1m30s.`);
    byId("hold")?.focus();
    return;
  }
  const { target, fault } = chosen;
  const what = `${spaced(fault)} of ${target}`;
  const isSure = await confirm(`${capital(spaced(fault))} ${target} for ${lasting(seconds)}?`,
    "Losses are measured and judged like any other. The fault heals by itself afterwards.", "Inject");
  if (!isSure) return;
  tell(`${capital(what)} is active …`);
  try {
    await act("/faults", { fault, target, hold_seconds: seconds });
    tell(`${capital(what)} is healed. Its effect is measured and shown under Faults.`);
  } catch (error) {
    tell(`${capital(what)}: ${error.message}.`);
  }
}

function stopping() {
  const stop = async () => {
    const isSure = await confirm("Stop the soak?", "The load stops, everything is verified again, and the verdict is given. Then the daemon exits.", "Stop and give the verdict");
    if (!isSure) return;
    try {
      await act("/stop");
      tell("Stopping: draining and verifying.");
    } catch (error) {
      tell(`Not stopped: ${error.message}.`);
    }
  };
  return h("p", { class: "stop" }, h("button", { type: "button", class: "danger", "data-key": "stop", click: stop }, "Stop and give the verdict …"));
}

/** Ask before doing; whoever just presses Enter or Escape has said no. */
function confirm(title, text, yes) {
  return new Promise((resolve) => {
    let isSure = false;
    const opener = document.activeElement?.dataset.key;
    const answer = (value) => { isSure = value; question.close(); };
    question.replaceChildren(h("div", { class: "question" },
      h("h2", { id: "question-title" }, title), h("p", {}, text),
      h("div", { class: "row" },
        h("button", { type: "button", autofocus: true, click: () => answer(false) }, "Cancel"),
        h("button", { type: "button", class: "danger", click: () => answer(true) }, yes))));
    question.addEventListener("close", () => {
      if (opener) document.querySelector(`[data-key="${CSS.escape(opener)}"]`)?.focus();
      resolve(isSure);
    }, { once: true });
    question.showModal();
  });
}
