// What a row of the list of sessions says in its second line.

import type { Summary } from "../wire/types";
import { money, oneLine } from "./text";
import { worktreeName } from "./tree";

/** `look` is that of the session's state. The node is named only where several gateways share a store. */
export function rowFacts(summary: Summary, look: string): string[] {
  return [
    look === "waiting" ? "waiting for you" : look === "working" ? "working" : "",
    summary.state === "transcript" ? "transcript" : "",
    summary.archived ? "archived" : "",
    summary.queued ? `${summary.queued} queued` : "",
    oneLine(summary.branch, 40),
    worktreeName(summary.cwd),
    summary.node ? `on ${oneLine(summary.node, 32)}` : "",
    summary.parent ? "fork" : "",
    summary.turns ? `${summary.turns} turn${summary.turns === 1 ? "" : "s"}` : "",
    summary.cost_usd ? money(summary.cost_usd) : "",
  ].filter(Boolean);
}
