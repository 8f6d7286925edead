// Logs recorded from the demo agent: `live` as a watcher got them, deltas included; `history` as the log has them now.

import type { Event } from "../src/wire/types";

const FILES = import.meta.glob<string>("./logs/*.jsonl", { query: "?raw", import: "default", eager: true });

export const NAMES: string[] = Object.keys(FILES).flatMap((path) => /([a-z]+)\.live\.jsonl$/.exec(path)?.[1] ?? []);

export function recorded(name: string, kind: "live" | "history"): Event[] {
  const lines = FILES[`./logs/${name}.${kind}.jsonl`]!.trim().split("\n");
  // `prev` is the place of the entry before, which differs where deltas are gone; the socket looks at it, no fold does.
  return lines.map((line) => ({ ...(JSON.parse(line) as Event), prev: 0 }));
}
