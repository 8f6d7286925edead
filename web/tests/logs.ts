// Logs recorded from the demo agent: `live` as a watcher got them, deltas included; `history` as the log has them now.

import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Event } from "../src/wire/types";

const FOLDER = fileURLToPath(new URL("./logs/", import.meta.url));

export const NAMES = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".live.jsonl"))
  .map((name) => name.replace(".live.jsonl", ""));

export function recorded(name: string, kind: "live" | "history"): Event[] {
  const lines = readFileSync(`${FOLDER}${name}.${kind}.jsonl`, "utf8").trim().split("\n");
  // `prev` is the place of the entry before, which differs where deltas are gone; the socket looks at it, no fold does.
  return lines.map((line) => ({ ...(JSON.parse(line) as Event), prev: 0 }));
}
