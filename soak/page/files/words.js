// Numbers, durations and moments as people read them.

const whole = new Intl.NumberFormat("en");
const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export const count = (value) => whole.format(Math.round(value ?? 0));

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value >= 10 ? whole.format(Math.round(value)) : Number(value.toFixed(1))}/s`;
}

/** A share from 0 to 1, with as many digits as it takes to tell it from nothing. */
export function percent(share) {
  if (share > 0 && share < 0.0001) return "< 0.01 %";
  return `${share >= 0.1 ? Math.round(share * 100) : Number((share * 100).toPrecision(2))} %`;
}

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** A duration in the two largest units that fit, the way soak's settings are written. */
export function lasting(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0095) return `${Number((seconds * 1000).toPrecision(2))}ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))}s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of UNITS) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)}${unit}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ");
}

/** A duration that counts up or down: whole seconds, so that it does not flicker. */
export const ticking = (seconds) => (seconds === null || seconds === undefined ? "–" : lasting(Math.max(0, Math.floor(seconds))) || "0s");

/** What "5s", "1m30s" or "2" means in seconds; NaN if it means nothing. */
export function parseLasting(text) {
  const plain = text.trim().toLowerCase();
  if (/^\d+(\.\d+)?$/.test(plain)) return Number(plain);
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(plain)) return Number.NaN;
  const sizes = { ms: 0.001, s: 1, m: 60, h: 3600 };
  return [...plain.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)].reduce((sum, part) => sum + Number(part[1]) * sizes[part[2]], 0);
}

export function clock(wallSeconds) {
  if (!wallSeconds) return "–";
  const moment = new Date(wallSeconds * 1000);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? time.format(moment) : `${day.format(moment)}, ${time.format(moment)}`;
}

export function clockMs(wallSeconds) {
  const moment = new Date(wallSeconds * 1000);
  return `${time.format(moment)}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const spaced = (word) => String(word).replaceAll("_", " ");

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
