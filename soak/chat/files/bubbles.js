// What was said, drawn. Text is only ever text: nothing here makes markup of a string.

const WORDS = {
  sending: ["…", "sending"],
  speaking: ["…", "answering"],
  remembered: ["✓", "remembered"],
  "not remembered": ["✗", "not remembered"],
  unknown: ["?", "nobody knows whether it is remembered"],
  "broken off": ["?", "broken off; nobody knows whether it is remembered"],
  lost: ["✗", "was remembered, and is not in the memory now"],
  unreadable: ["✗", "cannot be read"],
};
const SPEAKERS = { user: "You", assistant: "soak" };

/** Make an element; functions listen to events. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** One message on the page: what it says, whose it is, and what is known of its fate. */
export class Bubble {
  constructor({ id, role, content }, state, why = "") {
    this.id = id;
    this.role = role;
    this.content = content;
    this.words = h("div", { class: "content", dir: "auto" });
    this.words.textContent = content;
    this.foot = h("div", { class: "mark" });
    const speaker = h("span", { class: "unseen" }, `${SPEAKERS[role] ?? role}: `);
    this.node = h("li", { class: "bubble", "data-id": id, "data-role": role }, speaker, this.words, this.foot);
    this.become(state, why);
  }

  /** Show what is known of its fate now. What can be done about it stands beside it. */
  become(state, why = "", act = null) {
    if (this.state === state && this.why === why && !this.act && !act) return;
    this.state = state;
    this.why = why;
    this.act = act;
    this.node.dataset.state = state;
    this.node.setAttribute("aria-busy", state === "speaking");
    const [sign, word] = WORDS[state];
    const told = h("span", { class: "word", title: why || null }, h("span", { "aria-hidden": "true" }, `${sign} `), word);
    const why_not = state === "not remembered" && why ? h("span", {}, why) : null;
    this.foot.replaceChildren(...[told, why_not, act && h("button", { type: "button", click: act.run }, act.label)].filter(Boolean));
  }

  say(content) {
    this.content = content;
    this.words.textContent = content;
  }
}

export const wordsFor = (state) => WORDS[state][1];
