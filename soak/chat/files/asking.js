// Asking the service. What only reads may be asked again; what says something is sent once, and its fate is told as it is.

export const UNKNOWN = "unknown";
const BROKEN_OFF = "broken off";

/** What was said so far, or an error: no answer is not an empty memory. */
export async function history(conversation, last) {
  const response = await post("/api/history", last ? { conversation, last } : { conversation });
  const told = await response.json();
  if (!response.ok) throw new Error(told.error);
  return told.messages;
}

/** Send it, and say what became of it; where no answer comes, nobody knows. */
export async function change(path, question) {
  try {
    const told = await (await post(path, question)).json();
    return told.state ? told : { state: told.applied === false ? "not remembered" : UNKNOWN, error: told.error };
  } catch (error) {
    return { state: UNKNOWN, error: error.message };
  }
}

/** Ask for an answer, and hand over its words as they come; returns how it ended. */
export async function listen(question, hear) {
  try {
    const response = await post("/api/answer", question);
    if (!response.ok) {
      const told = await response.json();
      return { state: told.applied === false ? "not remembered" : BROKEN_OFF, status: response.status, error: told.error };
    }
    for await (const told of lines(response.body)) {
      if (told.state) return told;
      hear(told.words);
    }
  } catch (error) {
    return { state: BROKEN_OFF, error: error.message };
  }
  return { state: BROKEN_OFF, error: "the answer has no end" };
}

const post = (path, question) => fetch(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question),
});

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
