// The conversations that this browser has been to. Only their names are kept, and only here.

import { h } from "/chat/bubbles.js";

const KEY = "soak-chat-conversations";
const KEPT_MAX = 20;

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // a browser may refuse to keep anything
  }
}

/** Note that we are here, and offer where we have been before. */
export function visit(conversation) {
  const others = read().filter((one) => one !== conversation).slice(0, KEPT_MAX - 1);
  try {
    localStorage.setItem(KEY, JSON.stringify([conversation, ...others]));
  } catch {
    return;
  }
  document.getElementById("others").hidden = !others.length;
  const link = (one) => h("li", {}, h("a", { href: `/c/${encodeURIComponent(one)}` }, one));
  document.getElementById("recent").replaceChildren(...others.map(link));
}
