// Asking the daemon for something. What only reads is asked again when the network hiccups; what acts never is.

const TRIES_MAX = 4;
const PAUSE_MS = 250;

export async function get(path, headers = {}) {
  for (let tried = 1; ; tried += 1) {
    try {
      return await answer(await fetch(path, { headers }));
    } catch (error) {
      // Only a fetch that reached nobody ends in a TypeError.
      if (!(error instanceof TypeError) || tried === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * tried));
    }
  }
}

export async function post(path, body, headers) {
  const options = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(await fetch(path, options));
}

/** What the daemon refuses, with the reason it gives. */
export class Refusal extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function answer(response) {
  const told = await response.json();
  if (!response.ok) throw new Refusal(response.status, told.error);
  return told;
}
