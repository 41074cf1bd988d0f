// Hearing from the daemon: it connects, notices when nothing is heard any more, and tries again until it is.

const SILENCE_MS_MAX = 5000; // the daemon speaks every second
const RETRY_MS = 1000;
const RETRY_MS_MAX = 5000;

/** Tells `state(value)`, `lost(sinceMs)` and `found()`; stops with the end of the run, for nothing comes after it. */
export class Connection {
  constructor(listeners) {
    this.listeners = listeners;
    this.heardAt = Date.now();
    this.isLost = false;
    this.retryMs = RETRY_MS;
    this.source = null;
    this.open();
    this.watching = setInterval(() => this.watch(), 500);
  }

  open() {
    this.source?.close();
    const source = new EventSource("/events");
    this.source = source;
    this.openedAt = Date.now();
    source.addEventListener("state", (event) => this.hear(() => this.listeners.state(JSON.parse(event.data))));
    source.addEventListener("end", (event) => {
      source.close();
      clearInterval(this.watching);
      this.isOver = true;
      this.hear(() => this.listeners.state(JSON.parse(event.data)));
    });
    source.onerror = () => {
      if (this.isOver) return;
      this.lose();
      // A browser gives up for good after an answer that is no stream, such as "too many watch already".
      if (source.readyState === EventSource.CLOSED && source === this.source) this.again();
    };
  }

  again() {
    this.source.close();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), this.retryMs);
    this.retryMs = Math.min(RETRY_MS_MAX, this.retryMs * 1.5);
  }

  hear(tell) {
    const wasLost = this.isLost;
    this.heardAt = Date.now();
    this.isLost = false;
    this.retryMs = RETRY_MS;
    if (wasLost) this.listeners.found();
    tell();
  }

  lose() {
    if (this.isLost) return;
    this.isLost = true;
    this.listeners.lost(this.heardAt);
  }

  /** A connection can be silent without being broken: a machine that slept, a daemon that hangs. */
  watch() {
    if (Date.now() - this.heardAt <= SILENCE_MS_MAX) return;
    this.lose();
    if (Date.now() - this.openedAt > SILENCE_MS_MAX && this.source.readyState === EventSource.OPEN) this.open();
  }
}
