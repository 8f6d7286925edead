// Sums of usage statistics, and the kinds of notices.

import { describe, expect, it } from "vitest";
import { type UsageStats, type Spent, byModel, daysOf, stacked, sums, windowOf } from "../src/state/usage";
import { KINDS, DEFAULT_PUSH, DEFAULT_TOASTS, toggled } from "../src/state/kinds";

function spent(day: string, project: string, model: string, cost: number): Spent {
  return { day, project, model, input: 10, output: 5, cache_read: 2, cache_write: 1, cost_usd: cost };
}

const USAGE: UsageStats = {
  spent: [spent("2026-11-14", "/a", "opus", 1), spent("2026-11-15", "/a", "haiku", 0.5), spent("2026-11-15", "/b", "opus", 2)],
  turns: [
    { day: "2026-11-14", project: "/a", turns: 3, failed: 1, cancelled: 0, duration_ms: 5 },
    { day: "2026-11-15", project: "/c", turns: 1, failed: 0, cancelled: 1, duration_ms: 5 },
  ],
  tools: [],
  limits: [],
};
const DAYS = ["2026-11-13", "2026-11-14", "2026-11-15"];

describe("sums", () => {
  it("has every day in order, including days without usage", () => {
    const days = sums(USAGE, "day", DAYS);
    expect(days.map((one) => [one.name, one.cost, one.turns])).toEqual([
      ["2026-11-13", 0, 0],
      ["2026-11-14", 1, 3],
      ["2026-11-15", 2.5, 1],
    ]);
  });

  it("has projects and models by cost, and a project that only had turns", () => {
    expect(sums(USAGE, "project").map((one) => [one.name, one.cost, one.turns, one.failed])).toEqual([
      ["/b", 2, 0, 0],
      ["/a", 1.5, 3, 1],
      ["/c", 0, 1, 0],
    ]);
    expect(sums(USAGE, "model").map((one) => [one.name, one.cost, one.cache])).toEqual([
      ["opus", 3, 6],
      ["haiku", 0.5, 3],
    ]);
  });

  it("has the same total by day, project and model", () => {
    const total = (rows: { cost: number }[]) => rows.reduce((sum, one) => sum + one.cost, 0);
    expect(total(sums(USAGE, "day", DAYS))).toBe(total(sums(USAGE, "model")));
    expect(total(sums(USAGE, "project"))).toBe(total(sums(USAGE, "model")));
  });
});

describe("series", () => {
  it("gives each model a value for each day", () => {
    expect(byModel(USAGE, DAYS, (row) => row.cost_usd)).toEqual([
      { label: "opus", values: [0, 1, 2] },
      { label: "haiku", values: [0, 0, 0.5] },
    ]);
  });

  it("puts the small ones together", () => {
    const many = { ...USAGE, spent: ["a", "b", "c", "d"].map((model, at) => spent("2026-11-15", "/a", model, 4 - at)) };
    expect(byModel(many, DAYS, (row) => row.cost_usd, 2)).toEqual([
      { label: "a", values: [0, 0, 4] },
      { label: "b", values: [0, 0, 3] },
      { label: "others", values: [0, 0, 3] },
    ]);
  });
});

describe("stacks", () => {
  it("stand on one another, the last one as high as all together", () => {
    expect(stacked([{ values: [1, 0] }, { values: [2, 5] }, { values: [0, 1] }])).toEqual([
      [1, 0],
      [3, 5],
      [3, 6],
    ]);
    expect(stacked([])).toEqual([]);
  });
});

describe("days", () => {
  it("are those of the place", () => {
    const midnight = Date.UTC(2026, 10, 15);
    expect(daysOf(midnight, midnight + 86_400_000, 0)).toEqual(["2026-11-15"]);
    // Two hours east, a local day begins two hours before midnight in Greenwich.
    expect(daysOf(midnight - 7_200_000, midnight + 79_200_000, 120)).toEqual(["2026-11-15"]);
    expect(daysOf(midnight, midnight + 86_400_000, -60)).toEqual(["2026-11-14", "2026-11-15"]);
  });
});

describe("limits", () => {
  it("show what the agent reported", () => {
    const info = { utilization: 1.2, resetsAt: 10, status: "allowed_warning" };
    expect(windowOf({ kind: "five_hour", at: 1, info })).toEqual({
      name: "5-hour limit",
      used: 1,
      status: "allowed warning",
      resets: 10_000,
      at: 1,
    });
    expect(windowOf({ kind: "some_new", at: 1, info: {} })).toMatchObject({ name: "some new", used: null, resets: 0 });
    expect(windowOf({ kind: "x", at: 1, info: { utilization: Number.NaN, resetsAt: "soon", status: 7 } })).toMatchObject({
      used: null,
      status: "",
      resets: 0,
    });
  });
});

describe("kinds", () => {
  it("that are defaults can be selected, and are listed once", () => {
    const known = new Set(KINDS.map((one) => one.kind));
    expect([...DEFAULT_TOASTS, ...DEFAULT_PUSH].filter((kind) => !known.has(kind))).toEqual([]);
    expect(toggled(["a", "b"], "b", true)).toEqual(["a", "b"]);
    expect(toggled(["a", "b"], "a", false)).toEqual(["b"]);
  });
});
