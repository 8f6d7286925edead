// The list of sessions: a session that disappeared while disconnected leaves the list with the next connection.

import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Summary } from "../src/wire/types";

const gateway = vi.hoisted(() => ({
  sessions: [] as Summary[],
  notify: (_sessions: string[]) => {},
}));

vi.mock("../src/live/session-changes", () => ({
  onSessionChanges: (listener: (sessions: string[]) => void) => {
    gateway.notify = listener;
  },
}));

vi.mock("../src/wire/rest", () => ({
  WireError: Error,
  key: { value: "key" },
  query: (values: Record<string, string | number>) => `?${new URLSearchParams(values as Record<string, string>)}`,
  rest: {
    get: async (path: string) => {
      const asked = new URL(path, "http://gateway").searchParams;
      const from = Number(asked.get("before") ?? 0);
      const to = from + Number(asked.get("limit"));
      const more = to < gateway.sessions.length;
      return { sessions: gateway.sessions.slice(from, to), ...(more ? { next: String(to) } : {}) };
    },
  },
}));

const one = (number: number) => ({ session: `s${number}`, updated: 1000 - number, pending: 0 }) as Summary;

describe("the list of sessions", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });
    gateway.sessions = Array.from({ length: 250 }, (_, number) => one(number));
    return () => vi.useRealTimers();
  });

  it("drops a session that is no longer shared after a reconnect, even on a later page", async () => {
    const { loadMore, refresh, summaries } = await import("../src/live/sessions");
    await refresh();
    await loadMore();
    expect(summaries.value).toHaveLength(200);
    gateway.sessions = gateway.sessions.filter((session) => session.session !== "s150");
    gateway.notify(["s3"]);
    gateway.notify([]);
    await vi.runAllTimersAsync();
    const ids = summaries.value.map((session) => session.session);
    expect(ids).toHaveLength(200);
    expect(ids).not.toContain("s150");
    expect(ids.at(-1)).toBe("s200");
    await loadMore();
    expect(summaries.value).toHaveLength(249);
  });
});
