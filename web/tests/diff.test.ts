// A large change is drawn in portions, over all its hunks.

import { expect, it, vi } from "vitest";

vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });
const { firstRows } = await import("../src/parts/diff");

const hunk = (rows: number) => ({
  rows: Array.from({ length: rows }, (_, at) => ({ sign: "+" as const, text: `${at}`, old: 0, new: at + 1 })),
});

it("shows the first rows of all hunks together", () => {
  const lengths = (most: number) => firstRows([hunk(3), hunk(5), hunk(2)], most).map(({ rows }) => rows.length);
  expect(lengths(2)).toEqual([2]);
  expect(lengths(3)).toEqual([3]);
  expect(lengths(6)).toEqual([3, 3]);
  expect(lengths(100)).toEqual([3, 5, 2]);
});

it("does not copy what is shown whole", () => {
  const whole = hunk(4);
  expect(firstRows([whole], 10)[0]).toBe(whole);
});
