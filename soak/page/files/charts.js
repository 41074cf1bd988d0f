// Charts of each store, with the faults of its servers behind them. All share one span of time and one cursor.

import { get } from "/page/asking.js";
import { byId, h } from "/page/dom.js";
import { clock, count, lasting, plural, rate, spaced } from "/page/words.js";
import { collectFaults } from "/page/faults.js";

const RANGES = [["5 min", 300], ["1 h", 3600], ["all", Infinity]];
const HEIGHT = 176;
const MARGIN = { left: 48, right: 10, top: 20, bottom: 22 };
const GAP_SECONDS = 5; // the daemon measures every second; nothing for so long is nothing known
const SPAN_SECONDS_MIN = 60;
const ZOOM_SECONDS_MIN = 2;
const DRAG_PIXELS_MIN = 6;
const KEPT_MAX = 20000;
const TICK_PIXELS = 92;
const LETTER_PIXELS = 6.2;
const STEPS_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

// Colours and line styles are those of the HTML report.
const KINDS = [
  {
    name: "operations per second", unit: rate, isLog: false,
    lines: [
      { field: "acknowledged_rate", label: "appends", css: "a", fills: true },
      { field: "read_rate", label: "reads", css: "b" },
      { field: "verified_rate", label: "verified", css: "c" },
      { field: "error_rate", label: "errors", css: "e" },
    ],
  },
  {
    name: "time to answer", unit: lasting, isLog: true,
    lines: [
      { field: "append_p99_seconds", label: "append p99", css: "a" },
      { field: "append_p50_seconds", label: "append p50", css: "a dashed" },
      { field: "read_p99_seconds", label: "read p99", css: "b" },
      { field: "read_p50_seconds", label: "read p50", css: "b dashed" },
    ],
  },
  { name: "violations so far", unit: count, isLog: false, isOfViolations: true, lines: [{ field: "violations", label: "violations", css: "e", fills: true }] },
];

const series = new Map(); // by store, its points, the oldest first
const charts = [];
let range = 300;
let zoom = null; // [since, until] while zoomed
let cursor = null; // wall seconds under the pointer
let drag = null; // [since, until] while a span is dragged
let soak = null;
let until = 0;
let isLive = true;
let isAsked = false;

export function startCharts() {
  byId("ranges").append(...RANGES.map(([label, seconds]) => h("label", {},
    h("input", { type: "radio", name: "range", value: String(seconds), checked: seconds === range, change: () => { range = seconds; setZoom(null); } }),
    h("span", {}, label))));
  byId("unzoom").addEventListener("click", () => setZoom(null));
  new ResizeObserver(drawAll).observe(byId("chart-cards"));
}

/** Ask for all that was measured; what comes afterwards is told with each state. */
export async function fetchSeries() {
  isAsked = true;
  try {
    const told = await get("/series");
    series.clear();
    for (const [store, rows] of Object.entries(told.stores)) series.set(store, rows.map((row) => named(told.fields, row)));
    drawAll();
  } catch {
    isAsked = false; // asked again with the next state
  }
}

export function forgetSeries() {
  isAsked = false;
}

const named = (fields, row) => Object.fromEntries(fields.map((field, at) => [field, row[at]]));

/** Take in the newest points, and return the last of each store; nothing where nobody measures any more. */
export function takePoints(state, silentSince) {
  if (!soak && state.end) chooseAll();
  soak = state.soak;
  until = state.now_wall_seconds;
  isLive = !state.end && !silentSince;
  if (!isAsked && !silentSince) fetchSeries();
  for (const [store, rows] of Object.entries(state.points.stores)) {
    if (!series.has(store)) series.set(store, []);
    const known = series.get(store);
    for (const row of rows) {
      const point = named(state.points.fields, row);
      if (known.length === 0 || point.at_wall_seconds > known.at(-1).at_wall_seconds) known.push(point);
    }
    if (known.length > KEPT_MAX) known.splice(0, known.length - KEPT_MAX);
  }
  drawAll();
  return soak.stores.map((store) => series.get(store)?.at(-1)).filter((point) => point && isLive && point.at_wall_seconds > until - GAP_SECONDS);
}

/** Of a past run everything is shown at first. */
function chooseAll() {
  range = Infinity;
  for (const one of document.getElementsByName("range")) one.checked = one.value === String(range);
}

function setZoom(span) {
  zoom = span;
  cursor = null;
  byId("unzoom").disabled = zoom === null;
  drawAll();
}

/** The span of time that all charts show. A run that has just begun fills them all the same. */
function span() {
  if (zoom) return zoom;
  const firsts = [...series.values()].map((points) => points[0]?.at_wall_seconds).filter(Boolean);
  return [Math.max(until - range, Math.min(...firsts, until - SPAN_SECONDS_MIN)), until];
}

const wanted = (store) => KINDS.filter((kind) => !kind.isOfViolations || series.get(store).some((point) => point.violations > 0));

function build() {
  const stores = soak.stores.filter((store) => series.has(store));
  const all = stores.flatMap((store) => wanted(store).map((kind) => [store, kind]));
  if (all.length === 0 || (all.length === charts.length && all.every(([store, kind], at) => charts[at].store === store && charts[at].kind === kind))) return;
  charts.length = 0;
  byId("chart-cards").replaceChildren(...stores.map((store) => h("section", { class: "store", "aria-label": `Charts of ${store}` }, h("h3", {}, store),
    wanted(store).map((kind) => {
      const chart = new Chart(store, kind);
      charts.push(chart);
      return chart.figure;
    }))));
}

function drawAll() {
  if (!soak) return;
  build();
  const [since, end] = span();
  for (const chart of charts) chart.draw(series.get(chart.store) ?? [], since, end);
}

function pointAll(at, dragged = null) {
  cursor = at;
  drag = dragged;
  for (const chart of charts) chart.overlay();
}

/** Whether a fault touched what a store rests on. */
export function concerns(fault, store) {
  const servers = soak.servers_of[store];
  return !servers || servers.includes(fault.target) || fault.taken.some((one) => one.store === store);
}

class Chart {
  constructor(store, kind) {
    this.store = store;
    this.kind = kind;
    this.drawing = h("g", {});
    this.over = h("g", { class: "over" });
    this.svg = h("svg", { class: "chart", role: "img", height: HEIGHT, tabindex: "0", "aria-describedby": "chart-help" }, this.drawing, this.over);
    this.readout = h("p", { class: "readout" });
    this.legend = h("p", { class: "legend", "aria-hidden": "true" }, kind.lines.map((line) => h("span", {},
      h("svg", { viewBox: "0 0 20 8", width: 20, height: 8 }, h("path", { class: `line ${line.css}`, d: "M0 4H20" })), line.label)));
    this.figure = h("figure", { "data-kind": kind.name }, h("figcaption", {}, h("span", { class: "title" }, kind.name), this.legend), this.svg, this.readout);
    this.listen();
  }

  listen() {
    const at = (event) => this.since + ((event.offsetX - MARGIN.left) / this.inner) * (this.until - this.since);
    const inside = (moment) => Math.min(this.until, Math.max(this.since, moment));
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = { x: event.offsetX, at: inside(at(event)) };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      const isDragged = from && Math.abs(event.offsetX - from.x) >= DRAG_PIXELS_MIN;
      pointAll(inside(at(event)), isDragged ? [from.at, inside(at(event))].sort((one, other) => one - other) : null);
    });
    this.svg.addEventListener("pointerup", () => {
      from = null;
      const chosen = drag;
      drag = null;
      if (chosen && chosen[1] - chosen[0] >= ZOOM_SECONDS_MIN) setZoom(chosen);
      else pointAll(cursor);
    });
    this.svg.addEventListener("pointercancel", () => { from = null; pointAll(null); });
    this.svg.addEventListener("pointerleave", () => { if (!from) pointAll(null); });
    this.svg.addEventListener("dblclick", () => setZoom(null));
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.svg.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.svg.addEventListener("blur", () => { this.readout.removeAttribute("aria-live"); pointAll(null); });
  }

  press(event) {
    const width = this.until - this.since;
    const middle = cursor ?? this.until;
    const move = (to) => pointAll(Math.min(this.until, Math.max(this.since, to)));
    const closer = (factor) => {
      const half = Math.max(ZOOM_SECONDS_MIN, width * factor) / 2;
      setZoom([Math.max(this.since, middle - half), Math.min(this.until, middle + half)]);
      pointAll(middle);
    };
    const keys = {
      ArrowLeft: () => move(middle - width / 50), ArrowRight: () => move(middle + width / 50),
      Home: () => move(this.since), End: () => move(this.until),
      "+": () => closer(0.5), "-": () => setZoom(null), Escape: () => setZoom(null),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  draw(all, since, end) {
    const width = Math.max(160, this.figure.clientWidth);
    Object.assign(this, { since, until: end, width, inner: width - MARGIN.left - MARGIN.right });
    this.points = all.filter((point) => point.at_wall_seconds >= since && point.at_wall_seconds <= end);
    this.x = (at) => MARGIN.left + ((at - since) / Math.max(1, end - since)) * this.inner;
    this.bands = collectFaults(soak).filter((fault) => concerns(fault, this.store)).map((fault) => ({ fault, end: endOf(fault) }))
      .filter((band) => band.end >= since && band.fault.began <= end).reverse();
    const scale = this.scale(this.points);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("aria-label", this.summary());
    const floor = HEIGHT - MARGIN.bottom;
    this.drawing.replaceChildren(
      ...this.shades(),
      ...scale.ticks.flatMap((tick) => [
        h("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: scale.y(tick), y2: scale.y(tick) }),
        h("text", { class: "tick", x: MARGIN.left - 6, y: scale.y(tick) + 3.5, "text-anchor": "end" }, this.kind.unit(tick)),
      ]),
      ...moments(since, end, Math.max(2, Math.floor(this.inner / TICK_PIXELS))).flatMap(([at, text]) => [
        h("line", { class: "grid", x1: this.x(at), x2: this.x(at), y1: floor, y2: floor + 4 }),
        h("text", { class: "tick time", x: Math.min(this.x(at), width - text.length * LETTER_PIXELS / 2), y: HEIGHT - 5, "text-anchor": "middle" }, text),
      ]),
      ...this.kind.lines.flatMap((line) => stretches(this.points, line.field, this.kind.isLog).flatMap((dots) => this.line(line, dots, scale.y, floor))),
    );
    this.overlay();
  }

  line(line, dots, y, floor) {
    const places = dots.map(([at, value]) => [this.x(at).toFixed(1), y(value).toFixed(1)]);
    if (places.length === 1) return [h("circle", { class: `dot ${line.css}`, cx: places[0][0], cy: places[0][1], r: 2 })];
    const d = places.map(([x, up], at) => `${at ? "L" : "M"}${x} ${up}`).join("");
    return [
      line.fills ? h("path", { class: `area ${line.css}`, d: `${d}L${places.at(-1)[0]} ${floor}L${places[0][0]} ${floor}Z` }) : null,
      h("path", { class: `line ${line.css}`, d }),
    ].filter(Boolean);
  }

  /** What follows the pointer: the same moment in every chart. */
  overlay() {
    if (!this.points) return;
    const height = HEIGHT - MARGIN.top - MARGIN.bottom;
    const pointed = cursor === null ? undefined : nearest(this.points, cursor);
    const parts = [];
    if (drag) parts.push(h("rect", { class: "chosen", x: this.x(drag[0]), y: MARGIN.top, width: this.x(drag[1]) - this.x(drag[0]), height }));
    if (cursor !== null) parts.push(h("line", { class: "cursor", x1: this.x(cursor), x2: this.x(cursor), y1: MARGIN.top, y2: MARGIN.top + height }));
    this.over.replaceChildren(...parts);
    const shown = pointed ?? this.points.at(-1);
    const fault = cursor === null ? undefined : this.bands.find((band) => band.fault.began <= cursor && cursor <= band.end);
    const during = fault ? ` (${spaced(fault.fault.name)} of ${fault.fault.target})` : "";
    const when = pointed || !isLive || zoom ? clock(shown?.at_wall_seconds) : "now";
    this.readout.textContent = shown ? `${when}${during}: ${this.values(shown)}` : "nothing measured in this time";
  }

  values(point) {
    return this.kind.lines.filter((line) => point[line.field] !== null).map((line) => `${line.label} ${this.kind.unit(point[line.field])}`).join(" · ") || "nothing to measure";
  }

  scale(points) {
    const values = points.flatMap((point) => this.kind.lines.map((line) => point[line.field])).filter((value) => value > 0);
    const bottom = HEIGHT - MARGIN.bottom;
    const height = bottom - MARGIN.top;
    if (!this.kind.isLog) {
      const most = ceiling(Math.max(1, ...values));
      return { ticks: this.kind.isOfViolations && most < 2 ? [0, most] : [0, most / 2, most], y: (value) => bottom - (value / most) * height };
    }
    const low = Math.floor(Math.log10(Math.min(0.001, ...values)));
    const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(0.01, ...values))));
    const ticks = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
    return { ticks, y: (value) => bottom - ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * height };
  }

  /** The faults, each with its name where there is room for it. */
  shades() {
    let labelledUntil = 0;
    return this.bands.flatMap(({ fault, end }) => {
      const from = this.x(Math.max(this.since, fault.began));
      const name = spaced(fault.name);
      const length = name.length * LETTER_PIXELS;
      const isCut = from > this.width - length;
      const place = isCut ? this.width - length : from;
      const hasRoom = place >= labelledUntil;
      if (hasRoom) labelledUntil = place + length + 8;
      return [
        h("rect", { class: "fault", x: from, y: MARGIN.top, width: Math.max(2, this.x(Math.min(this.until, end)) - from), height: HEIGHT - MARGIN.top - MARGIN.bottom }),
        hasRoom ? h("text", { class: "fault", x: isCut ? this.width - 1 : from, y: MARGIN.top - 7, "text-anchor": isCut && "end" }, name) : null,
      ].filter(Boolean);
    });
  }

  /** The chart in words. */
  summary() {
    const title = `${this.kind.name} of ${this.store}, ${clock(this.since)} to ${clock(this.until)}`;
    if (this.points.length === 0) return `${title}: nothing measured`;
    const lines = this.kind.lines.map((line) => {
      const values = this.points.map((point) => point[line.field]).filter((value) => value !== null).sort((one, other) => one - other);
      return values.length ? `${line.label} mostly ${this.kind.unit(values[Math.floor(values.length / 2)])}, at most ${this.kind.unit(values.at(-1))}` : `${line.label} not measured`;
    });
    const faults = this.bands.length ? plural(this.bands.length, "fault") : "no faults";
    return `${title}: ${lines.join("; ")}; ${faults}`;
  }
}

const endOf = (fault) => (fault.state === "active" ? until : fault.began + Math.max(fault.lasted ?? fault.hold ?? 0, 0.5));

function nearest(points, at) {
  return points.reduce((best, point) => (!best || Math.abs(point.at_wall_seconds - at) < Math.abs(best.at_wall_seconds - at) ? point : best), undefined);
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

/** Moments for the axis, at whole minutes, hours or days of the local clock. */
function moments(since, end, most) {
  const width = Math.max(1, end - since);
  const step = STEPS_SECONDS.find((one) => width / one <= most) ?? Math.ceil(width / most / 86400) * 86400;
  const offset = -new Date(since * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((since + offset) / step) * step - offset;
  const found = [];
  for (let at = first; at <= end && found.length <= most; at += step) found.push([at, axisTime(at, step, width)]);
  return found;
}

const two = (number) => String(number).padStart(2, "0");

function axisTime(at, step, width) {
  const moment = new Date(at * 1000);
  const day = `${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  const time = `${two(moment.getHours())}:${two(moment.getMinutes())}`;
  if (step >= 86400) return day;
  if (step < 60) return `${time}:${two(moment.getSeconds())}`;
  return width > 86400 ? `${day} ${time}` : time;
}

/** The dots of one quantity in stretches; where nothing is known, or there is nothing to show on a log scale, it is interrupted. */
function stretches(points, field, isLog) {
  const steps = points.slice(1).map((point, at) => point.at_wall_seconds - points[at].at_wall_seconds).sort((one, other) => one - other);
  const gap = Math.max(GAP_SECONDS, 3 * (steps[Math.floor(steps.length / 2)] ?? 1));
  const found = [];
  let before = null;
  for (const point of points) {
    const value = point[field];
    if (value === null || value === undefined || (isLog && value <= 0)) {
      before = null;
      continue;
    }
    if (before === null || point.at_wall_seconds - before > gap) found.push([]);
    found.at(-1).push([point.at_wall_seconds, value]);
    before = point.at_wall_seconds;
  }
  return found;
}
