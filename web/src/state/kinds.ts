// The kinds of notices that a person can choose by, in their words.

export interface Kind {
  kind: string;
  label: string;
  about: string;
}

export const KINDS: Kind[] = [
  { kind: "permission.asked", label: "Something waits for you", about: "A permission, a question or a plan" },
  { kind: "turn.completed", label: "A turn is finished", about: "The agent has done what it was asked" },
  { kind: "turn.failed", label: "A turn has failed", about: "It ended with an error" },
  { kind: "turn.cancelled", label: "A turn was cancelled", about: "Somebody stopped it" },
  { kind: "session.agent_exited", label: "An agent ended unexpectedly", about: "Its process is gone" },
  { kind: "session.created", label: "A session is new", about: "On any device" },
  { kind: "agent.complete", label: "A scheduled agent is done", about: "It ran by its schedule" },
  { kind: "agent.fail", label: "A scheduled agent has failed", about: "It ran by its schedule" },
  { kind: "reminder.complete", label: "A reminder is due", about: "One that you set" },
];

/** What somebody is told who never chose. */
export const USUAL_TOASTS = ["permission.asked", "turn.failed", "session.agent_exited", "reminder.complete", "agent.fail"];
export const USUAL_PUSH = ["permission.asked", "turn.completed", "turn.failed", "session.agent_exited"];

export function toggled(chosen: string[], kind: string, on: boolean): string[] {
  const others = chosen.filter((one) => one !== kind);
  return on ? [...others, kind] : others;
}
