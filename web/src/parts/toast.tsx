// Short messages that disappear by themselves and are announced politely; one with an action stays longer.

import { signal } from "@preact/signals";
import { Button } from "./button";

interface Toast {
  id: number;
  text: string;
  tone: "plain" | "bad" | "wait";
  action?: { label: string; run: () => void };
}

const shown = signal<Toast[]>([]);
let counter = 0;
const STAYS_MS = 6000;

export function toast(text: string, options: { tone?: Toast["tone"]; action?: Toast["action"] } = {}): () => void {
  const { tone = "plain", action } = options;
  const made: Toast = { id: ++counter, text, tone, ...(action ? { action } : {}) };
  // The same text is shown once.
  shown.value = [...shown.value.filter((one) => one.text !== text).slice(-3), made];
  const gone = () => {
    shown.value = shown.value.filter((one) => one.id !== made.id);
  };
  setTimeout(gone, action ? STAYS_MS * 3 : STAYS_MS);
  return gone;
}

/** For `catch`: shows the gateway's message or the local error. */
export function toastError(error: unknown): void {
  toast(error instanceof Error ? error.message : String(error), { tone: "bad" });
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.value.map((one) => (
        <div key={one.id} class={`toast ${one.tone}`}>
          <span>{one.text}</span>
          {one.action && <Button label={one.action.label} kind="quiet" onClick={() => one.action?.run()} />}
          <Button
            label="Dismiss"
            icon="close"
            kind="quiet"
            bare
            onClick={() => {
              shown.value = shown.value.filter((other) => other.id !== one.id);
            }}
          />
        </div>
      ))}
    </div>
  );
}
