// Small charts of rates and latency, one pair a store, with the times of faults behind them.

import { get } from "/page/asking.js";
import { byId, h } from "/page/dom.js";
import { clock, lasting, plural, rate } from "/page/words.js";
import { collectFaults } from "/page/faults.js";

const RANGES = [["5 min", 300], ["1 h", 3600], ["all", Infinity]];
const HEIGHT = 150;
const MARGIN = { left: 46, right: 8, top: 8, bottom: 20 };
const GAP_SECONDS = 5; // the daemon measures every second; nothing for so long is nothing known
const SPAN_SECONDS_MIN = 60;
const KEPT_MAX = 20000;

const KINDS = [
  {
    name: "rates", unit: rate, isLog: false,
    lines: [
      { field: "acknowledged_rate", label: "appends", css: "one" },
      { field: "read_rate", label: "reads", css: "two" },
      { field: "error_rate", label: "errors", css: "bad", hidesZero: true },
    ],
  },
  {
    name: "latency", unit: lasting, isLog: true,
    lines: [
      { field: "append_p50_seconds", label: "append p50", css: "one" },
      { field: "append_p99_seconds", label: "append p99", css: "one dashed" },
      { field: "read_p50_seconds", label: "read p50", css: "two" },
      { field: "read_p99_seconds", label: "read p99", css: "two dashed" },
    ],
  },
];

const series = new Map(); // by store, its points, the oldest first
const charts = [];
let range = 300;
let soak = null;
let isAsked = false;

export function startCharts() {
  byId("ranges").append(...RANGES.map(([label, seconds]) => h("label", {},
    h("input", { type: "radio", name: "range", value: String(seconds), checked: seconds === range, change: () => { range = seconds; drawAll(); } }),
    h("span", {}, label))));
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

/** Take in the newest points, and return the last of each store. */
export function takePoints(state) {
  soak = state.soak;
  if (!isAsked) fetchSeries();
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
  const since = state.now_wall_seconds - GAP_SECONDS;
  return state.soak.stores.map((store) => series.get(store)?.at(-1)).filter((point) => point && point.at_wall_seconds > since);
}

function build() {
  const stores = soak.stores.filter((store) => series.has(store));
  if (stores.length === 0 || charts.map((chart) => chart.store).join() === stores.flatMap((store) => KINDS.map(() => store)).join()) return;
  charts.length = 0;
  byId("chart-cards").replaceChildren(...stores.map((store) => h("div", { class: "store" }, h("h3", {}, store),
    KINDS.map((kind) => {
      const chart = new Chart(store, kind);
      charts.push(chart);
      return chart.figure;
    }))));
}

function drawAll() {
  if (!soak) return;
  build();
  const until = Date.now() / 1000;
  for (const chart of charts) chart.draw(series.get(chart.store) ?? [], until);
}

class Chart {
  constructor(store, kind) {
    this.store = store;
    this.kind = kind;
    this.svg = h("svg", { class: "chart", role: "img", height: HEIGHT });
    this.readout = h("p", { class: "readout" });
    this.legend = h("p", { class: "legend" }, kind.lines.map((line) => h("span", {},
      h("svg", { viewBox: "0 0 20 8", width: 20, height: 8, "aria-hidden": "true" }, h("path", { class: `line ${line.css}`, d: "M0 4H20" })), line.label)));
    this.figure = h("figure", {}, h("figcaption", {}, h("span", { class: "title" }, kind.name), this.legend), this.svg, this.readout);
    this.svg.addEventListener("pointermove", (event) => { this.pointedAt = event.offsetX; this.redraw(); });
    this.svg.addEventListener("pointerleave", () => { this.pointedAt = undefined; this.redraw(); });
  }

  redraw() {
    if (this.last) this.draw(...this.last);
  }

  draw(all, until) {
    this.last = [all, until];
    const width = Math.max(160, this.figure.clientWidth);
    // A run that has just begun fills the chart all the same.
    const since = Math.max(until - range, Math.min(all[0]?.at_wall_seconds ?? until, until - SPAN_SECONDS_MIN));
    const points = all.filter((point) => point.at_wall_seconds >= since);
    const x = (at) => MARGIN.left + ((at - since) / Math.max(1, until - since)) * (width - MARGIN.left - MARGIN.right);
    const scale = this.scale(points);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("aria-label", this.summary(points));
    const pointed = this.pointedAt === undefined ? undefined : nearest(points, since + ((this.pointedAt - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (until - since));
    this.svg.replaceChildren(
      ...this.faults(x, since, until),
      ...scale.ticks.flatMap((tick) => [
        h("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: scale.y(tick), y2: scale.y(tick) }),
        h("text", { class: "tick", x: MARGIN.left - 6, y: scale.y(tick) + 3.5, "text-anchor": "end" }, this.kind.unit(tick)),
      ]),
      ...this.times(x, since, until, width),
      ...this.kind.lines.map((line) => h("path", { class: `line ${line.css}`, d: path(points, line, x, scale.y, this.kind.isLog) })),
      ...(pointed ? [h("line", { class: "cursor", x1: x(pointed.at_wall_seconds), x2: x(pointed.at_wall_seconds), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom })] : []),
    );
    const shown = pointed ?? points.at(-1);
    const told = shown ? this.kind.lines.map((line) => `${line.label} ${this.kind.unit(shown[line.field])}`).join(" · ") : "nothing measured";
    this.readout.textContent = shown ? `${pointed ? clock(shown.at_wall_seconds) : "now"}: ${told}` : told;
  }

  scale(points) {
    const values = points.flatMap((point) => this.kind.lines.map((line) => point[line.field])).filter((value) => value !== null && value !== undefined && value > 0);
    const top = MARGIN.top;
    const bottom = HEIGHT - MARGIN.bottom;
    if (!this.kind.isLog) {
      const most = ceiling(Math.max(1, ...values));
      return { ticks: [0, most / 2, most], y: (value) => bottom - (value / most) * (bottom - top) };
    }
    const low = Math.floor(Math.log10(Math.min(0.001, ...values)));
    const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(0.01, ...values))));
    const ticks = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
    return { ticks, y: (value) => bottom - ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (bottom - top) };
  }

  times(x, since, until, width) {
    const marks = [[since, "start"], [(since + until) / 2, "middle"], [until, "end"]];
    return marks.map(([at, anchor]) => h("text", { class: "tick", x: anchor === "end" ? width - MARGIN.right : x(at), y: HEIGHT - 5, "text-anchor": anchor },
      anchor === "end" ? "now" : `−${lasting(Math.round(until - at))}`));
  }

  faults(x, since, until) {
    return collectFaults(soak).map((fault) => {
      const ended = fault.state === "active" ? until : fault.began + Math.max(fault.lasted ?? fault.hold ?? 0, 0.5);
      if (ended < since) return null;
      const from = x(Math.max(since, fault.began));
      return h("rect", { class: "fault", x: from, y: MARGIN.top, width: Math.max(2, x(Math.min(until, ended)) - from), height: HEIGHT - MARGIN.top - MARGIN.bottom },
        h("title", {}, `${fault.name} of ${fault.target}, ${clock(fault.began)}`));
    }).filter(Boolean);
  }

  summary(points) {
    const shown = points.at(-1);
    if (!shown) return `${this.kind.name} of ${this.store}: nothing measured yet`;
    const lines = this.kind.lines.map((line) => `${line.label} ${this.kind.unit(shown[line.field])}`);
    return `${this.kind.name} of ${this.store}, now: ${lines.join(", ")}; ${plural(points.length, "measurement")} shown`;
  }
}

function nearest(points, at) {
  return points.reduce((best, point) => (!best || Math.abs(point.at_wall_seconds - at) < Math.abs(best.at_wall_seconds - at) ? point : best), undefined);
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

/** A line through the points; where nothing is known it is interrupted. */
function path(points, { field, hidesZero }, x, y, isLog) {
  const steps = points.slice(1).map((point, at) => point.at_wall_seconds - points[at].at_wall_seconds).sort((one, other) => one - other);
  const gap = Math.max(GAP_SECONDS, 3 * (steps[Math.floor(steps.length / 2)] ?? 1));
  let before = null;
  const parts = [];
  for (const point of points) {
    const value = point[field];
    if (value === null || value === undefined || ((isLog || hidesZero) && value <= 0)) {
      before = null;
      continue;
    }
    const isFirst = before === null || point.at_wall_seconds - before > gap;
    parts.push(`${isFirst ? "M" : "L"}${x(point.at_wall_seconds).toFixed(1)} ${y(value).toFixed(1)}`);
    before = point.at_wall_seconds;
  }
  return parts.join("");
}
