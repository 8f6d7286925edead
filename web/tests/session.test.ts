// Opening a session by a link or a reload: the list is empty then, and its transcript may not be imported yet.

import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Event, Summary } from "../src/wire/types";

const gateway = vi.hoisted(() => ({
  importing: false,
  log: [] as Event[],
  file: [] as Event[] | null,
  asked: [] as string[],
  watched: [] as number[],
  polls: 0,
}));

vi.mock("../src/live/session-changes", () => ({ onSessionChanges: () => {} }));

vi.mock("../src/wire/socket", () => ({
  wire: {
    status: { peek: () => "live", subscribe: () => () => {} },
    subscribe: (_session: string, cursor: { after: number }) => {
      gateway.watched.push(cursor.after);
      return () => {};
    },
  },
}));

vi.mock("../src/wire/rest", () => {
  class WireError extends Error {
    constructor(
      readonly code: string,
      message: string,
    ) {
      super(message);
    }
  }
  const answer = (path: string) => {
    const [, what = ""] = /sessions\/[^/?]+\/?([a-z]*)/.exec(path) ?? [];
    gateway.asked.push(what || "view");
    if (what === "glance") {
      if (!gateway.file) throw new WireError("not_found", "There is no transcript.");
      return { events: gateway.file, importing: gateway.importing };
    }
    if (what === "messages") {
      // The import is complete after some polls.
      if (gateway.importing && ++gateway.polls >= 3) {
        gateway.importing = false;
        gateway.log = (gateway.file ?? []).map((event, index) => ({ ...event, seq: 1000 + index }));
      }
      return { log_id: "l", head: gateway.log.at(-1)?.seq ?? 0, events: gateway.log };
    }
    return { summary: { session: "s" } as Summary, log_id: "l", head: 0, importing: gateway.importing };
  };
  return {
    WireError,
    asWire: (error: unknown) => error,
    key: { value: "key" },
    query: () => "",
    rest: { get: async (path: string) => answer(path) },
  };
});

vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });
const { LiveSession } = await import("../src/live/session");
const { summaries } = await import("../src/live/sessions");

function text(number: number): Event {
  const event = { type: "text", id: `e${number}`, seq: number, at: number, message: `m${number}`, block: 0 };
  return { ...event, text: `answer ${number}`, session: "s", prev: 0 } as unknown as Event;
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("cancelAnimationFrame", () => {});
  Object.assign(gateway, { importing: false, log: [], file: null, asked: [], watched: [], polls: 0 });
  summaries.value = [];
});

describe("a session that is opened while the list is not loaded", () => {
  it("shows the end of an unopened transcript at once and follows the log only when it is imported", async () => {
    Object.assign(gateway, { importing: true, file: [text(1), text(2)], log: [text(1)] });
    const live = new LiveSession("s");
    const opened = live.open();
    await vi.advanceTimersByTimeAsync(0);
    expect(live.loaded.value).toBe(true);
    expect(live.items.value).toHaveLength(2);
    expect(gateway.watched).toEqual([]);
    await vi.advanceTimersByTimeAsync(5000);
    await opened;
    expect(gateway.watched).toEqual([999]);
    expect(live.view.value?.summary.session).toBe("s");
  });

  it("does the same for a session that another client is importing, although the list has it as opened", async () => {
    summaries.value = [{ session: "s", state: "idle" } as Summary];
    Object.assign(gateway, { importing: true, file: [text(1), text(2)], log: [text(1)] });
    const live = new LiveSession("s");
    const opened = live.open();
    await vi.advanceTimersByTimeAsync(5000);
    await opened;
    expect(gateway.asked).toContain("glance");
    expect(gateway.watched).toEqual([999]);
  });

  it("opens a session without a transcript as usual", async () => {
    gateway.log = [text(7)];
    const live = new LiveSession("s");
    await live.open();
    expect(live.error.value).toBeNull();
    expect(gateway.watched).toEqual([6]);
  });

  it("does not ask for the transcript of a session that the list has as opened", async () => {
    summaries.value = [{ session: "s", state: "idle" } as Summary];
    gateway.log = [text(7)];
    await new LiveSession("s").open();
    expect(gateway.asked).not.toContain("glance");
  });
});
