// The items of a conversation: in the order of the log, calls with their results, subagents inside calls.

import type { AskEvent, Block, ModelUsage, PermissionResolved } from "../wire/types";

interface Base {
  /** Stable over reloads and replays: made of ids, never of places in a list. */
  key: string;
  seq: number;
  at: number;
  turn: string;
}

export interface UserItem extends Base {
  kind: "user";
  message: string;
  content: Block[];
  by: string;
  via: "prompt" | "steer" | "agent";
  /** Sent by this device and not in the log yet; with an error, sending failed. */
  sending?: boolean;
  error?: string;
}

export interface TextItem extends Base {
  kind: "text" | "thinking";
  text: string;
  streaming: boolean;
  /** Number of characters before the first one here, sent before the subscription. */
  missing: number;
  /** Number of characters received so far, while it streams. */
  count: number;
  error: string;
}

export interface Ask {
  event: AskEvent;
  resolved?: PermissionResolved;
  cancelled?: string;
}

export type CallState = "writing" | "running" | "done" | "failed" | "interrupted";

export interface Thread {
  id: string;
  title: string;
  type: string;
  state: "running" | "completed" | "failed" | "stopped";
  background: boolean;
  items: Item[];
  /** How many calls it has made: its progress, while it runs. */
  calls: number;
  summary: string;
}

export interface CallItem extends Base {
  kind: "call";
  call: string;
  name: string;
  input: Record<string, unknown>;
  /** The input as far as the model has written it. */
  draft: string;
  state: CallState;
  content: unknown;
  data: unknown;
  elapsed: number;
  note: string;
  ended: number;
  ask: Ask | null;
  thread: Thread | null;
}

export interface EndItem extends Base {
  kind: "end";
  status: "completed" | "failed" | "cancelled";
  reason: string;
  errors: string[];
  cost: number;
  ms: number;
  usage: Record<string, ModelUsage>;
}

export interface NoteItem extends Base {
  kind: "note";
  /** `mark`: a line across the conversation (compaction, fork); `quiet`: small; `warn` and `bad` say what to do. */
  tone: "quiet" | "mark" | "warn" | "bad";
  text: string;
  more: string;
}

export interface AskItem extends Base {
  kind: "ask";
  ask: Ask;
}

export type Item = UserItem | TextItem | CallItem | EndItem | NoteItem | AskItem;
