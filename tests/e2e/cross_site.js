/* What a page of another site could try; returns what became of each attempt. */
async ([address, token]) => {
  const told = {};
  const body = JSON.stringify({ fault: "crash", target: "redis" });
  const ways = {
    simple: { headers: { "Content-Type": "text/plain" } },
    blind: { mode: "no-cors", headers: { "Content-Type": "text/plain" } },
    tokened: { headers: { "Content-Type": "application/json", "X-Soak-Token": token } },
  };
  for (const [name, options] of Object.entries(ways)) {
    for (const path of ["stop", "faults", "session"]) {
      try {
        const answer = await fetch(address + path, { method: "POST", body, ...options });
        told[`${name} ${path}`] = answer.type === "opaque" ? "blind" : answer.status;
      } catch {
        told[`${name} ${path}`] = "refused";
      }
    }
  }
  const source = new EventSource(address + "events");
  told.events = await new Promise((resolve) => {
    source.onerror = () => resolve("refused");
    source.onopen = () => resolve("open");
  });
  source.close();
  return told;
}
