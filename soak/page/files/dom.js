// Building what is shown. Text is only ever text: nothing here, or anywhere on the page, makes markup of a string.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "line", "text", "circle", "title", "pattern", "defs"]);

export const byId = (id) => document.getElementById(id);

/** Make an element; attributes that are null or false are left out, functions listen to events. */
export function h(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const drawn = new WeakMap();

/** Draw a part of the page anew if what it shows has changed; whoever has the focus in it keeps it. */
export function draw(container, data, build) {
  const now = JSON.stringify(data);
  if (drawn.get(container) === now) return;
  drawn.set(container, now);
  const focused = container.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Set([...container.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const places = [...container.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  container.replaceChildren(...[build(data)].flat(3).filter(Boolean));
  for (const one of container.querySelectorAll("details")) if (open.has(one.dataset.key)) one.open = true;
  container.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = places[index] || 0; });
  if (!focused) return;
  const same = container.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? container.querySelector("[data-key]");
  same?.focus({ preventScroll: true });
}

/** Draw it again the next time, whatever it shows. */
export const forget = (container) => drawn.delete(container);

/** A long name, such as a class with its module, may break after a dot, a colon or an underscore. */
export const breakable = (text) => text.split(/(?<=[.:_])(?=\w)/).flatMap((part, index) => (index ? [h("wbr"), part] : [part]));

function cell(tag, content, extra) {
  if (typeof content === "string") return h(tag, extra, breakable(content));
  if (content === null || typeof content !== "object" || !("cell" in content)) return h(tag, extra, content);
  const { cell: inner, ...attributes } = content;
  return h(tag, { ...extra, ...attributes }, inner);
}

/**
 * A table that scrolls by itself where it is wider than the page. Cells are text, or `{cell: nodes, ...attributes}`.
 * One that stacks becomes a list of cards on a small screen; the roles keep it a table for those who listen.
 */
export function table(caption, heads, rows, { stacks = false } = {}) {
  const labels = heads.map((head) => (typeof head === "object" ? head.cell : head));
  const row = (cells) => cells.map((content, index) => index === 0
    ? cell("th", content, { scope: "row", role: "rowheader" })
    : cell("td", content, { role: "cell", "data-label": labels[index] }));
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { role: "table", class: stacks ? "stacks" : null },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((head) => cell("th", head, { scope: "col", role: "columnheader" })))),
      h("tbody", { role: "rowgroup" }, rows.map((one) => h("tr", { role: "row", ...one.attributes }, row(one.cells || one))))));
}

const SIGNS = { good: "✓", bad: "✗", unsure: "?", busy: "…", fault: "⚡" };

/** A word with a sign before it, so that its colour is never all that tells. */
export function badge(tone, text) {
  return h("span", { class: `badge ${tone}` }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[tone] || "•"), text);
}
