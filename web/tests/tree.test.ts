// Forks stand under what they were made from.

import { describe, expect, it } from "vitest";
import { branches, mainFolder, relatives, worktreeName } from "../src/state/tree";
import type { Summary } from "../src/wire/types";

const one = (session: string, updated: number, parent: string | null = null) =>
  ({ session, updated, parent }) as Summary;

const shown = (list: Summary[]) => branches(list).map(({ summary, depth }) => `${" ".repeat(depth)}${summary.session}`);

describe("sessions as a tree", () => {
  it("puts a fork under its session, and both where the newer of them belongs", () => {
    expect(shown([one("a", 1), one("b", 5), one("c", 9, "a"), one("d", 2, "a")])).toEqual(["a", " c", " d", "b"]);
  });

  it("shows a fork of what is not there as its own", () => {
    expect(shown([one("c", 9, "gone"), one("b", 5)])).toEqual(["c", "b"]);
  });

  it("shows each once, whatever their parents say", () => {
    const strange = [one("self", 1, "self"), one("x", 4), one("y", 3, "x"), one("z", 2, "y"), one("w", 1, "z"), one("v", 1, "w")];
    const list = shown(strange);
    expect(list).toContain("self");
    expect(list.filter((name) => name.trim() === "v")).toEqual(["   v"]);
  });

  it("knows relatives", () => {
    const all = [one("a", 1), one("c", 9, "a"), one("d", 2, "a")];
    expect(relatives("a", all).forks.map((fork) => fork.session)).toEqual(["c", "d"]);
    expect(relatives("c", all).parent?.session).toBe("a");
    expect(relatives("gone", all)).toEqual({ parent: null, forks: [] });
  });
});

describe("worktrees", () => {
  it("are listed under the folder of their repository", () => {
    expect(mainFolder("/w/app/.worktrees/fix")).toBe("/w/app");
    expect(worktreeName("/w/app/.worktrees/fix")).toBe("worktree fix");
    for (const cwd of ["/w/app", "/.worktrees/fix", "/w/app/.worktrees/fix/src", ""]) {
      expect(mainFolder(cwd)).toBe(cwd);
      expect(worktreeName(cwd)).toBe("");
    }
  });
});
