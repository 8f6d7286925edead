// A list of events that was shortened folds to what it did before.

import { describe, expect, it } from "vitest";
import { Conversation } from "../src/state/conversation";
import { shortened } from "../src/state/window";
import type { Event } from "../src/wire/types";
import { NAMES, recorded } from "./logs";

function items(events: Event[]): unknown {
  const made = new Conversation();
  made.apply(events);
  return JSON.parse(JSON.stringify(made.items));
}

describe.each(NAMES)("the log %s", (name: string) => {
  const live = recorded(name, "live");

  it("folds to the same at every length, and is no longer than what it says", () => {
    for (let length = 1; length <= live.length; length++) {
      const part = live.slice(0, length);
      const { events, cut } = shortened(part, 10_000);
      expect(items(events)).toEqual(items(part));
      expect(cut).toBe(false);
      expect(shortened(events, 10_000).events).toEqual(events);
    }
  });

  it("goes on from where it was shortened", () => {
    const half = Math.floor(live.length / 2);
    const { events } = shortened(live.slice(0, half), 10_000);
    expect(items([...events, ...live.slice(half)])).toEqual(items(live));
  });
});

it("keeps the newest when there are too many", () => {
  const many = Array.from({ length: 50 }, (_, seq) => ({ type: "notice", id: `${seq}`, seq, kind: "x", text: "t" }) as Event);
  const { events, cut } = shortened(many, 20);
  expect([events.length, events[0]?.seq, cut]).toEqual([20, 30, true]);
});
