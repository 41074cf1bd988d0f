// The conversation: what the memory shows, and below it what is on its way there. The memory has the last word.
//
// `window.soak` is for those who test a memory by this page: it lets them choose the name of the next message, its text
// where a text box would change it (it makes one line end of another), and what the assistant is going to say.

import { change, history, listen, UNKNOWN } from "/chat/asking.js";
import { Bubble, wordsFor } from "/chat/bubbles.js";
import { answers, nextName } from "/chat/names.js";
import { visit } from "/chat/recent.js";

const SHOWN = 200; // messages, until more are asked for
const LOOK_MS = 3000; // how often another tab's words are looked for
const NEAR_END_PIXELS = 160;

const byId = (id) => document.getElementById(id);
const conversation = decodeURIComponent(location.pathname.slice("/c/".length));
const log = byId("log");
const box = byId("text");
const shown = new Map(); // bubbles by key: what the memory showed last, and what is on its way there
let shownMax = SHOWN;
let staged = null;
let isDriven = false;
let looks = 0;

// What the memory shows ----------------------------------------------------------------------------------------

async function look() {
  looks += 1;
  const number = looks;
  let messages;
  try {
    messages = await history(conversation, shownMax);
  } catch (error) {
    if (number === looks) showSilence(error);
    return;
  }
  if (number !== looks) return; // a later look has overtaken this one
  byId("lost").hidden = true;
  draw(messages, number);
  byId("whole").hidden = shownMax === null || messages.length < shownMax;
  byId("empty").hidden = shown.size > 0;
  log.dataset.state = "loaded";
}

function showSilence(error) {
  byId("lost-why").textContent = "I cannot reach my memory. This is not to say that I know nothing about you.";
  byId("lost").title = error.message;
  byId("lost").hidden = false;
  byId("empty").hidden = true;
  log.dataset.state = "unreachable";
}

function draw(messages, number) {
  const isAtEnd = isNearEnd();
  const times = new Map();
  const there = messages.map((message, index) => {
    const time = times.get(message.id) ?? 0;
    times.set(message.id, time + 1);
    // One that stands there twice is shown twice.
    return bubbleOf(message, message.id === undefined ? `unreadable ${index}` : time ? `${message.id} ${time}` : message.id);
  });
  const seen = new Set(there);
  const others = [...shown.values()].filter((bubble) => !seen.has(bubble));
  for (const bubble of others) {
    // A look that had begun before it was acknowledged need not have seen it.
    if (bubble.state === "remembered" && bubble.acknowledged < number) bubble.become("lost");
  }
  // What is not there only because so much came after it is not lost: it is further up.
  const kept = others.filter((bubble) => bubble.state !== "lost" || shownMax === null || messages.length < shownMax);
  shown.clear();
  for (const bubble of [...there, ...kept]) shown.set(bubble.key, bubble);
  arrange([...there, ...kept].map((bubble) => bubble.node));
  offerAnswer(there.at(-1));
  if (isAtEnd) scrollToEnd();
}

function bubbleOf(message, key) {
  const before = shown.get(key);
  if (message.id === undefined) {
    return before ?? keyed(new Bubble({ id: "", role: "", content: "Something here cannot be read." }, "unreadable", message.unreadable), key);
  }
  const bubble = before ?? keyed(new Bubble(message, "remembered"), key);
  if (bubble.content !== message.content) bubble.say(message.content);
  // What is being sent is remembered when its answer says so, and not because it was seen before that.
  if (bubble.state !== "sending") acknowledge(bubble);
  return bubble;
}

const keyed = (bubble, key) => Object.assign(bubble, { key });

function acknowledge(bubble) {
  bubble.acknowledged = looks;
  if (!bubble.act?.isOffer) bubble.become("remembered");
}

/** Put nodes in order without taking up those that stand right: whoever reads or listens is not disturbed. */
function arrange(nodes) {
  const wanted = new Set(nodes);
  for (const node of [...log.children]) if (!wanted.has(node)) node.remove();
  nodes.forEach((node, index) => { if (log.children[index] !== node) log.insertBefore(node, log.children[index] ?? null); });
}

const isNearEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - NEAR_END_PIXELS;
const scrollToEnd = () => scrollTo({ top: document.documentElement.scrollHeight });
const tell = (text) => { byId("told").textContent = text; };

// Saying something ---------------------------------------------------------------------------------------------

async function say(message, { again = false, isAnswered = true } = {}) {
  const bubble = again ? shown.get(message.id) : put(keyed(new Bubble(message, "sending"), message.id));
  bubble.become("sending");
  const told = await change("/api/say", again ? { conversation, message, again } : { conversation, message });
  settle(bubble, told, () => say(message, { again: true, isAnswered }));
  if (told.state === "remembered" && isAnswered) await answer(message);
}

function settle(bubble, told, again) {
  // Whoever is told that nobody knows may say it again; by itself the page never does.
  if (told.state === "remembered") {
    acknowledge(bubble);
  } else {
    bubble.become(told.state, told.error, { label: "Try again", run: again });
    tell(wordsFor(told.state));
  }
}

async function answer(message, script = null) {
  nameless += 1;
  const spoken = { id: script?.id ?? "", role: "assistant", content: "" };
  const bubble = put(keyed(new Bubble(spoken, "speaking"), `nameless ${nameless}`));
  const question = script ? { conversation, message, script } : { conversation, message };
  const told = await listen(question, (words) => {
    const isAtEnd = isNearEnd();
    bubble.say(bubble.content + words);
    if (isAtEnd) scrollToEnd();
  });
  if (told.status === 409) return drop(bubble); // another tab, or this one before it was loaded again, has asked
  if (told.message) rename(bubble, told.message);
  if (told.instead) bubble.say(told.instead);
  if (told.state === "remembered") acknowledge(bubble);
  else bubble.become(told.state, told.error);
  tell(told.state === "remembered" ? bubble.content : wordsFor(told.state));
  return undefined;
}

let nameless = 0;

function put(bubble) {
  shown.set(bubble.key, bubble);
  byId("empty").hidden = true;
  for (const one of shown.values()) if (one.act?.isOffer) one.become(one.state, one.why);
  log.append(bubble.node);
  scrollToEnd();
  return bubble;
}

function drop(bubble) {
  shown.delete(bubble.key);
  bubble.node.remove();
}

/** An answer gets its name with its end; a look may have found it in the memory before we heard of that. */
function rename(bubble, message) {
  shown.delete(bubble.key);
  const there = shown.get(message.id);
  if (there) there.node.replaceWith(bubble.node);
  bubble.id = bubble.key = message.id;
  bubble.node.dataset.id = message.id;
  bubble.say(message.content);
  shown.set(message.id, bubble);
}

/** A message that nobody has answered, because the page was loaded again or the service went away, can be. */
function offerAnswer(last) {
  const all = [...shown.values()];
  const isAnswered = all.some((one) => one.state === "speaking" || (one.role === "assistant" && last && answers(one.id, last.id)));
  const isOpen = last?.role === "user" && last.state === "remembered" && !isAnswered && !isDriven;
  // What is offered already is left alone: somebody may just be about to press it.
  for (const one of all) if (one.act?.isOffer && !(isOpen && one === last)) one.become("remembered");
  if (!isOpen || last.act) return;
  const { id, role, content } = last;
  last.become("remembered", "", { label: "Ask for an answer", isOffer: true, run: () => answer({ id, role, content }) });
}

async function forget() {
  tell("Forgetting");
  const told = await change("/api/forget", { conversation });
  if (told.state === "remembered") {
    shown.clear();
    arrange([]);
    await look();
    tell("I have forgotten this conversation.");
  } else {
    tell(told.state === UNKNOWN ? "Nobody knows whether it is forgotten." : "It is not forgotten.");
    byId("lost-why").textContent = byId("told").textContent;
    byId("lost").title = told.error ?? "";
    byId("lost").hidden = false;
  }
  log.dataset.forgotten = told.state;
}

// The person at the page ---------------------------------------------------------------------------------------

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const next = staged ?? { content: box.value };
  staged = null;
  if (!next.content && !next.id) return;
  box.value = "";
  box.focus();
  const id = next.id ?? nextName(conversation, next.content);
  say({ id, role: "user", content: next.content }, { isAnswered: !isDriven });
});
box.addEventListener("input", () => { staged = null; });
box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("composer").requestSubmit();
});
byId("look").addEventListener("click", look);
byId("whole").addEventListener("click", () => { shownMax = null; log.dataset.state = "loading"; look(); });
byId("forget").addEventListener("click", () => byId("question").showModal());
byId("question").addEventListener("close", () => { if (byId("question").returnValue === "forget") forget(); byId("question").returnValue = ""; });
addEventListener("pageshow", (event) => { if (event.persisted) look(); }); // the back button brings an old picture
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });

window.soak = {
  /** Choose the name of the next message, and its text where the box cannot hold it. No answer is asked for. */
  stage(message) {
    isDriven = true;
    staged = message;
  },
  /** Let the assistant say something. */
  answer(message) {
    isDriven = true;
    answer(message, message);
  },
};

function lookForEver() {
  setTimeout(async () => {
    if (!document.hidden && !isDriven && log.dataset.state !== "loading") await look();
    lookForEver();
  }, LOOK_MS);
}

document.title = `${conversation} · soak chat`;
visit(conversation);
look();
lookForEver();
if (!matchMedia("(pointer: coarse)").matches) box.focus();
