// Labels of modes, models and thinking budgets. Names that are not listed here are passed to the agent as typed.

export const MODES: { value: string; label: string; about: string }[] = [
  { value: "default", label: "Ask first", about: "Asks before it changes or runs anything" },
  { value: "acceptEdits", label: "Edit freely", about: "Edits files in its folder without asking" },
  { value: "plan", label: "Plan only", about: "Reads and plans, changes nothing" },
  { value: "dontAsk", label: "Never ask", about: "Denies everything that is not already allowed" },
  { value: "bypassPermissions", label: "Allow everything", about: "Only if the gateway permits it" },
];

export function modeName(mode: string): string {
  return MODES.find((one) => one.value === mode)?.label ?? (mode || "Ask first");
}

export const MODELS: { value: string; label: string }[] = [
  { value: "", label: "The agent's default" },
  { value: "opus", label: "Opus" },
  { value: "sonnet", label: "Sonnet" },
  { value: "haiku", label: "Haiku" },
];

export function modelName(model: string): string {
  const known = MODELS.find((one) => one.value === model);
  if (known) return known.value ? known.label : "Default model";
  const parts = /^claude-([a-z]+)-([\d-]+?)(?:-\d{8})?$/.exec(model);
  return parts ? `${parts[1]![0]!.toUpperCase()}${parts[1]!.slice(1)} ${parts[2]!.replaceAll("-", ".")}` : model;
}

export const THINKING: { value: number | null; label: string }[] = [
  { value: null, label: "The agent's default" },
  { value: 0, label: "Off" },
  { value: 4000, label: "Some (4,000 tokens)" },
  { value: 16000, label: "More (16,000 tokens)" },
  { value: 31999, label: "Most (32,000 tokens)" },
];

export const LINKS: { value: string; label: string }[] = [
  { value: "stdio", label: "Background process" },
  { value: "terminal", label: "Terminal that you can open" },
];
