// The kinds of notices that a user can select, with their labels.

export interface Kind {
  kind: string;
  label: string;
  about: string;
}

export const KINDS: Kind[] = [
  { kind: "permission.asked", label: "The agent needs your answer", about: "A permission request, a question or a plan" },
  { kind: "turn.completed", label: "Turn completed", about: "The agent finished its work" },
  { kind: "turn.failed", label: "Turn failed", about: "The turn ended with an error" },
  { kind: "turn.cancelled", label: "Turn cancelled", about: "A user stopped the turn" },
  { kind: "session.agent_exited", label: "Agent exited unexpectedly", about: "The agent's process ended" },
  { kind: "session.created", label: "New session", about: "Started on any device" },
  { kind: "agent.complete", label: "Scheduled agent completed", about: "A scheduled run finished" },
  { kind: "agent.fail", label: "Scheduled agent failed", about: "A scheduled run ended with an error" },
  { kind: "reminder.complete", label: "Reminder due", about: "A reminder that you set" },
];

/** The defaults of a device without a selection. */
export const DEFAULT_TOASTS = ["permission.asked", "turn.failed", "session.agent_exited", "reminder.complete", "agent.fail"];
export const DEFAULT_PUSH = ["permission.asked", "turn.completed", "turn.failed", "session.agent_exited"];

export function toggled(chosen: string[], kind: string, on: boolean): string[] {
  const others = chosen.filter((one) => one !== kind);
  return on ? [...others, kind] : others;
}
