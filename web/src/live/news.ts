// News of sessions for lists: one long answer of /v1/news, a line each, read as it comes. What changed is asked for
// afterwards, so that lists never build on half a story.

import { effect, signal } from "@preact/signals";
import { call, key } from "../wire/rest";

export interface News {
  session: string;
  what: "created" | "updated" | "activated" | "deactivated" | "deleted" | "read";
  at: number;
}

type Listener = (news: News[]) => void;

const listeners = new Set<Listener>();
let running: AbortController | null = null;

/** Called with nothing whenever news may have been missed: after every connection. */
export function onNews(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const AGAIN_MS = 3000;

async function listen(abort: AbortController): Promise<void> {
  while (!abort.signal.aborted) {
    try {
      const answer = await call("GET", "/v1/news", undefined, { signal: abort.signal });
      // Whatever happened before this moment was not told.
      tell([]);
      await read(answer);
    } catch {
      // The socket's status shows that the gateway is away; here it is only tried again.
    }
    if (!key.value || abort.signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function read(answer: Response): Promise<void> {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const piece = await reader?.read();
    if (!piece || piece.done) return;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop() ?? "";
    const news = lines.filter((line) => line.trim()).map((line) => JSON.parse(line) as News);
    if (news.length) tell(news);
  }
}

function tell(news: News[]): void {
  for (const listener of listeners) listener(news);
}

// Only a page that is looked at listens: a browser has six connections to a gateway for all its pages together, and a
// page that is looked at again asks anew anyway.
const looked = signal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => {
  looked.value = document.visibilityState === "visible";
});

effect(() => {
  running?.abort();
  running = null;
  if (!key.value || !looked.value) return;
  running = new AbortController();
  void listen(running);
});
