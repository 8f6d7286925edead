// Shortens a growing list of events without changing the items it folds to.

import type { Event } from "../wire/types";

type Delta = Event & { type: "text.delta" | "thinking.delta" | "input.delta" };

function isDelta(event: Event): event is Delta {
  return event.type === "text.delta" || event.type === "thinking.delta" || event.type === "input.delta";
}

function blockOf(event: { type: string; message?: string; block?: number }): string {
  return `${event.message}:${event.block ?? 0}`;
}

/** Deltas that their block repeats go, those of a block that is still being written become one; then, if there are
 * still more than `most`, the oldest events go (`cut`). */
export function shortened(events: Event[], most: number): { events: Event[]; cut: boolean } {
  const whole = new Set<string>();
  for (const event of events)
    if (event.type === "text" || event.type === "thinking" || event.type === "tool.called") whole.add(blockOf(event));
  const open = new Map<string, number>();
  const kept: Event[] = [];
  for (const event of events) {
    if (!isDelta(event)) {
      kept.push(event);
      continue;
    }
    const block = blockOf(event);
    if (whole.has(block)) continue;
    const place = open.get(block);
    if (place === undefined) {
      open.set(block, kept.length);
      kept.push(event);
    } else kept[place] = joined(kept[place] as Delta, event);
  }
  const over = kept.length - most;
  return over > 0 ? { events: kept.slice(over), cut: true } : { events: kept, cut: false };
}

/** One piece of what two were, at the place of the first. */
function joined(first: Delta, next: Delta): Event {
  if (first.type === "input.delta" && next.type === "input.delta") return { ...first, json: first.json + next.json };
  if (first.type === "input.delta" || next.type === "input.delta") return first;
  return { ...first, text: (first.text ?? "") + (next.text ?? "") } as Event;
}
