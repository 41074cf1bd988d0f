// Names of messages, made here before anything is sent, so that one that comes twice can be told. They are those of
// soak itself: the run is "chat", this page is a writer of its own, and the number counts what it says.

const RUN = "chat";
const WRITERS = 2 ** 31 - 2;
const writer = 1 + (crypto.getRandomValues(new Uint32Array(1))[0] % WRITERS);
let said = 0;

const table = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function crc32(text) {
  let sum = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) sum = (sum >>> 8) ^ table[(sum ^ byte) & 255];
  return ((sum ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

/** The id of the next thing that is said on this page: odd numbers are ours, the answers have those in between. */
export function nextName(conversation, content) {
  const number = 2 * said + 1;
  said += 1;
  const place = `${conversation}/${writer}/${number}`;
  return `${RUN}/${place}/${crc32(`${RUN}/user/${place}${content}`)}`;
}

/** Whether one id names the answer to what another one names: the number after it. */
export function answers(id, question) {
  const [one, other] = [id.split("/"), question.split("/")];
  if (one.length < 5 || one.length !== other.length) return false;
  return one.slice(0, -2).join("/") === other.slice(0, -2).join("/") && Number(one.at(-2)) === Number(other.at(-2)) + 1;
}
