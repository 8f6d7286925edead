// The fold of events into items: the same log gives the same items, however it comes.

import { describe, expect, it } from "vitest";
import { Conversation } from "../src/state/conversation";
import type { CallItem, Item, TextItem } from "../src/state/items";
import type { Event } from "../src/wire/types";
import { NAMES, recorded } from "./logs";

function fold(events: Event[]): Conversation {
  const made = new Conversation();
  made.apply(events);
  return made;
}

/** What is shown of it; the place in the log is the log's own matter. */
function shown(items: Item[]): unknown[] {
  return items.map((item) => {
    const { seq: _seq, at: _at, ...rest } = item;
    if (rest.kind === "call" && rest.thread) return { ...rest, thread: { ...rest.thread, items: shown(rest.thread.items) } };
    return rest;
  });
}

function state(made: Conversation): unknown {
  return { items: shown(made.items), queue: made.queue, pending: [...made.pending.keys()], facts: made.facts };
}

function of<K extends Item["kind"]>(made: Conversation, kind: K): (K extends "text" ? TextItem : Extract<Item, { kind: K }>)[] {
  return made.items.filter((item) => item.kind === kind) as never;
}

describe.each(NAMES)("the log %s", (name) => {
  const live = recorded(name, "live");
  const history = recorded(name, "history");

  it("gives the same whether its deltas were seen or not", () => {
    expect(state(fold(live))).toEqual(state(fold(history)));
  });

  it("gives the same in any batches", () => {
    const whole = state(fold(live));
    for (const size of [1, 2, 3, 7]) {
      const made = new Conversation();
      for (let at = 0; at < live.length; at += size) made.apply(live.slice(at, at + size));
      expect(state(made)).toEqual(whole);
    }
  });

  it("gives the same after a reconnection anywhere", () => {
    const whole = state(fold(history));
    for (const { seq: cut } of live) {
      const made = fold(live.filter((event) => event.seq <= cut));
      made.apply(history.filter((event) => event.seq > cut));
      expect(state(made)).toEqual(whole);
    }
  });

  it("has every key once, and keeps what did not change", () => {
    const made = new Conversation();
    for (const event of live) {
      const before = new Map(made.items.map((item) => [item.key, item]));
      made.apply([event]);
      const keys = made.items.map((item) => item.key);
      expect(new Set(keys).size).toBe(keys.length);
      const changed = made.items.filter((item) => before.has(item.key) && before.get(item.key) !== item);
      if (event.type.endsWith(".delta")) expect(changed.length).toBeLessThanOrEqual(1);
    }
  });

  it("ends with nothing streaming, running or waiting", () => {
    const made = fold(live);
    expect(made.facts.turn).toBe("");
    expect(made.pending.size).toBe(0);
    expect(made.queue).toEqual([]);
    expect(of(made, "text").filter((item) => item.streaming)).toEqual([]);
    expect(of(made, "call").filter((item) => item.state === "running" || item.state === "writing")).toEqual([]);
  });
});

describe("what is shown", () => {
  it("streams a text by its offsets, never twice", () => {
    const [first, second] = [delta(1, 0, "Hel"), delta(2, 3, "lo ⚓ ")];
    const made = fold([first, second, second, delta(3, 8, "world")]);
    const [item] = of(made, "text");
    expect(item?.text).toBe("Hello ⚓ world");
    expect(item?.streaming).toBe(true);
  });

  it("counts characters as the gateway does", () => {
    const made = fold([delta(1, 0, "a😀b"), delta(2, 3, "c"), delta(2, 3, "c")]);
    expect(of(made, "text")[0]?.text).toBe("a😀bc");
  });

  it("says how much of a text is missing when it came in the middle", () => {
    const item = of(fold([delta(9, 40, "the end")]), "text")[0]!;
    expect([item.text, item.missing]).toEqual(["the end", 40]);
  });

  it("puts a result into its call and a subagent into the call that started it", () => {
    const calls = of(fold(recorded("subagent", "live")), "call");
    expect(calls).toHaveLength(1);
    const thread = calls[0]?.thread;
    expect(thread?.state).toBe("completed");
    expect(thread?.calls).toBe(1);
    const inner = thread?.items.find((item) => item.kind === "call") as CallItem;
    expect(inner.state).toBe("done");
    expect(inner.ask?.resolved?.behavior).toBe("allow");
  });

  it("keeps who decided with the call", () => {
    const call = of(fold(recorded("denied", "live")), "call")[0]!;
    expect(call.ask?.resolved?.behavior).toBe("deny");
    expect(call.ask?.resolved?.message).toBe("not now");
    expect(call.state).toBe("failed");
  });

  it("marks what an interrupt closed, and sends what waited in order", () => {
    const made = fold(recorded("queue", "live"));
    expect(of(made, "end").map((item) => item.status)).toEqual(["cancelled", "completed", "completed"]);
    const said = of(made, "user").map((item) => JSON.stringify(item.content));
    expect(said[1]).toContain("first");
    expect(said[2]).toContain("second");
  });

  it("shows the queue while it waits, in its order", () => {
    const live = recorded("queue", "live");
    const queued = live.filter((event) => event.type === "message.queued").slice(1);
    const cut = queued[1]!.seq;
    const made = fold(live.filter((event) => event.seq <= cut));
    expect(made.queue.map((one) => one.message)).toEqual(queued.map((event) => (event as { message: string }).message));
    const moved = { type: "message.moved", id: "x", seq: cut + 1, message: made.queue[1]!.message, position: 0 } as Event;
    made.apply([moved]);
    expect(made.queue[0]!.message).toBe((moved as { message: string }).message);
  });

  it("knows whether it saw a turn begin or end at all", () => {
    expect(fold([delta(9, 0, "in the middle")]).facts).toMatchObject({ turn: "", turnSeen: false });
    expect(fold(recorded("think", "live")).facts).toMatchObject({ turn: "", turnSeen: true });
  });

  it("says what to do when the agent's process ends", () => {
    const made = fold(recorded("crash", "live"));
    expect(of(made, "end")[0]?.status).toBe("failed");
    expect(of(made, "end")[1]?.status).toBe("completed");
  });

  it("moves to a subagent what turned out to be its own", () => {
    const start: Event[] = [
      { type: "text", id: "a", seq: 1, message: "m1", block: 0, text: "whose?" },
      { type: "tool.called", id: "b", seq: 2, call: "c1", name: "Task", input: {}, message: "m2" },
      { type: "subagent.started", id: "c", seq: 3, child: "s1", call: "c1" },
      { type: "subagent.resolved", id: "d", seq: 4, child: "s1", call: "c1", messages: ["m1"] },
    ];
    const made = fold(start);
    expect(made.items.map((item) => item.kind)).toEqual(["call"]);
    expect((made.items[0] as CallItem).thread?.items.map((item) => item.key)).toEqual(["b:m1:0"]);
  });
});

function delta(seq: number, offset: number, text: string): Event {
  return { type: "text.delta", id: `d${seq}`, seq, message: "m", block: 0, offset, text };
}
