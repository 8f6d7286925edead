// Facts about a session from its events: name, settings, running turn, context usage.

import type { Event, ModelUsage } from "../wire/types";

export interface Facts {
  title: string;
  cwd: string;
  mode: string;
  model: string;
  thinking: number | null | undefined;
  turn: string;
  /** Whether a turn began or ended in these events; if not, what came before them decides. */
  turnSeen: boolean;
  turnBegan: number;
  interrupting: boolean;
  compacting: boolean;
  commands: string[];
  /** Tokens that the last answer of the main thread saw: how far the context is filled. */
  context: number;
  window: number;
  usage: Record<string, ModelUsage>;
  cost: number;
  archived: boolean;
}

export const NOTHING_KNOWN: Facts = {
  title: "",
  cwd: "",
  mode: "",
  model: "",
  thinking: undefined,
  turn: "",
  turnSeen: false,
  turnBegan: 0,
  interrupting: false,
  compacting: false,
  commands: [],
  context: 0,
  window: 0,
  usage: {},
  cost: 0,
  archived: false,
};

/** The facts that an event changes; null if it changes none. */
export function learned(event: Event): Partial<Facts> | null {
  switch (event.type) {
    case "session.opened":
      return { cwd: event.cwd, ...(event.title ? { title: event.title } : {}) };
    case "session.changed":
      return {
        ...(typeof event.title === "string" ? { title: event.title } : {}),
        ...(typeof event.archived === "boolean" ? { archived: event.archived } : {}),
      };
    case "agent.ready":
      return {
        ...(event.model ? { model: event.model } : {}),
        ...(event.mode ? { mode: event.mode } : {}),
        ...(event.cwd ? { cwd: event.cwd } : {}),
        ...(event.commands ? { commands: event.commands } : {}),
      };
    case "mode.changed":
      return { mode: event.mode };
    case "model.changed":
      return { model: event.model };
    case "thinking.changed":
      return { thinking: event.budget };
    case "compaction":
      return { compacting: event.phase === "started", ...(event.phase === "boundary" ? { context: 0 } : {}) };
    default:
      return null;
  }
}
