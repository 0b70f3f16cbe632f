// The server's answers: JSON, server-sent events, and errors in plain words.

export class ServerError extends Error {}

const BROKEN_OFF = "The connection was lost. Edit the text to try again.";

let token = sessionStorage.getItem("token");
let asking = null; // the open token dialog, which all requests share
let askForToken = async () => null;

/** Call `ask(wasRefused)` when the server needs a token; it returns the token, or null. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** The answer to GET (without a body) or POST, as JSON. */
export async function call(path, body, signal) {
  return (await request(path, body, signal)).json();
}

/** Server-sent events as pairs of name and data, up to the event `done`. */
export async function* events(path, body, signal) {
  const response = await request(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : new ServerError(BROKEN_OFF);
    });
    if (done) throw new ServerError(BROKEN_OFF);
    const blocks = (waiting + value).replaceAll("\r\n", "\n").split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const fields = block.split("\n").map((line) => line.split(/: ?(.*)/s));
      const data = fields.filter(([name]) => name === "data").map(([, text]) => text);
      const name = fields.find(([name]) => name === "event")?.[1] ?? "message";
      if (name === "done") return;
      if (data.length) yield [name, JSON.parse(data.join("\n"))];
    }
  }
}

async function request(path, body, signal) {
  for (let attempt = 1; ; attempt++) {
    const headers = body ? { "Content-Type": "application/json" } : {};
    if (token) headers.Authorization = `Bearer ${token}`;
    const sent = token;
    let response;
    try {
      const method = body ? "POST" : "GET";
      response = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError("The server is not responding. Is it still running?");
    }
    if (response.ok) return response;
    if (response.status === 401) {
      if (token === sent) await renewToken();
    } else if ((response.status === 429 || response.status === 503) && attempt < 6) {
      await pause(Number(response.headers.get("Retry-After")) || attempt, signal);
    } else {
      throw new ServerError(await explain(response));
    }
  }
}

/** Ask until it can be a token: a header can have no other characters, and the server refuses them. */
async function askForHeader() {
  let given = await askForToken(Boolean(token));
  while (given && !/^[ -~]+$/.test(given)) given = await askForToken(true);
  return given;
}

async function renewToken() {
  asking ??= askForHeader().finally(() => (asking = null));
  const given = await asking;
  if (!given) throw new ServerError("This server needs a token. Reload the page to enter it.");
  token = given;
  sessionStorage.setItem("token", token);
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal?.addEventListener("abort", stop, { once: true });
    setTimeout(() => (signal?.removeEventListener("abort", stop), resolve()), seconds * 1000);
  });
}

async function explain(response) {
  const answer = await response.json().catch(() => ({}));
  return answer.error ?? `The server answered ${response.status} ${response.statusText}.`;
}
