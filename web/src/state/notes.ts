// One line for events that are neither text nor calls, with advice for the user; null for events that are not shown.

import type { Event } from "../wire/types";
import type { NoteItem } from "./items";
import { amount, plain } from "./text";

type Note = Pick<NoteItem, "tone" | "text" | "more">;

const quiet = (text: string): Note => ({ tone: "quiet", text, more: "" });

/** What to do about an error, by its code. */
const ADVICE: Record<string, string> = {
  agent_missing: "Install Claude Code on the gateway's machine, or set its path in the setting “claude”.",
  agent_gone: "Send the message again. The agent restarts and continues with its history.",
  agent_timeout: "Send the message again. If the agent still does not answer, interrupt it or close the session.",
  agent_refused: "Read the agent's message, then send again or change the settings.",
  untrusted: "Open Settings, Trusted folders, review the settings of this folder, and trust it.",
  outside_roots: "Choose a folder inside the gateway's roots, or add a root to its settings.",
  unavailable: "The gateway's disk or database did not answer. It is safe to send the message again.",
};

export function advice(code: string): string {
  return ADVICE[code] ?? "";
}

export function note(event: Event): Note | null {
  switch (event.type) {
    case "session.forked":
      return { tone: "mark", text: "Forked from here", more: "" };
    case "session.resumed":
      return quiet("Resumed with its history");
    case "session.changed":
      return event.title ? quiet(`Renamed to “${plain(event.title)}”`) : null;
    case "session.closed":
      return quiet(`Closed: ${plain(event.reason)}`);
    case "agent.exited":
      return event.expected
        ? null
        : {
            tone: "bad",
            text: `The agent's process ended: ${plain(event.reason)}`,
            more: [ADVICE["agent_gone"], plain(event.stderr ?? "")].filter(Boolean).join("\n"),
          };
    case "permission.resolved":
      return { tone: "warn", text: `Denied: ${plain(event.tool)}`, more: plain(event.message || event.rule || event.how) };
    case "mode.changed":
      return quiet(`Mode: ${plain(event.mode)}${event.by ? `, by ${plain(event.by)}` : ""}`);
    case "model.changed":
      return quiet(`Model: ${plain(event.model) || "the agent's default"}`);
    case "thinking.changed":
      return quiet(`Thinking budget: ${event.budget ?? "the agent's default"}`);
    case "compaction":
      return event.phase === "boundary"
        ? {
            tone: "mark",
            text: `Compacted${event.pre_tokens ? ` at ${amount(event.pre_tokens)} tokens` : ""}`,
            more: "The full conversation stays here. The agent continues with a summary of it.",
          }
        : null;
    case "notice":
      return event.text ? quiet(plain(event.text)) : null;
    case "rewound":
      return { tone: "mark", text: "Files restored", more: "" };
    case "handover.settled":
      return quiet(
        event.outcome === "moved"
          ? `Handed over to ${plain(event.link)}`
          : `Stays on ${plain(event.link)}: ${plain(event.reason ?? event.outcome)}`,
      );
    case "error":
      return { tone: "bad", text: plain(event.message), more: advice(event.code) };
    default:
      return null;
  }
}
