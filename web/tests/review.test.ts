import { describe, expect, test } from "vitest";
import { type Comment, type DiffRow, bytes, linesOf, matching, messageOf, noteOf, placeOf, stateOf } from "../src/state/review";

const comment = (more: Partial<Comment>): Comment => ({
  id: "1", path: "src/a.py", key: "src/a.py", base: "session", from: 3, to: 3, old: false, quote: [], text: "Why?", ...more,
});

describe("review", () => {
  test("a selection is about lines of the new file, unless it has only removed ones", () => {
    const rows: DiffRow[] = [["-", 4, 0, "x"], ["+", 0, 5, "y"], [" ", 5, 6, "z"]];
    expect(linesOf(rows)).toEqual({ from: 5, to: 6, old: false });
    expect(linesOf(rows.slice(0, 1))).toEqual({ from: 4, to: 4, old: true });
    expect(linesOf([["@", 1, 1, ""]].slice(1) as DiffRow[])).toEqual({ from: 0, to: 0, old: false });
  });

  test("all comments become one message, each with its place and lines", () => {
    const text = messageOf([
      comment({ quote: ["-old", "+new"] }),
      comment({ path: "b.md", from: 1, to: 2, old: true, quote: ["-```js"], text: " Keep it. " }),
      comment({ path: "c", from: 0, to: 0 }),
    ]);
    expect(text).toBe(
      "Review comments on your changes:\n\n" +
        "src/a.py:3\n```diff\n-old\n+new\n```\nWhy?\n\n" +
        "b.md:1-2 (old)\n````diff\n-```js\n````\nKeep it.\n\n" +
        "c\nWhy?",
    );
  });

  test("a long quotation is cut", () => {
    const quote = Array.from({ length: 100 }, (_, index) => `+${index}`);
    expect(messageOf([comment({ quote, to: 102 })])).toContain("+29\n…\n```");
  });

  test("files match by all words, in any case", () => {
    const files = ["src/Review.tsx", "src/list.tsx", "README.md"].map((path) => ({ key: path, path, status: "added" as const }));
    expect(matching(files, "TSX rev").map((file) => file.path)).toEqual(["src/Review.tsx"]);
    expect(matching(files, " ")).toHaveLength(3);
  });

  test("what has no lines is described", () => {
    const diff = { key: "x", path: "x", total: 0 };
    expect(noteOf({ ...diff, note: "binary", old_size: 10, new_size: 2048 })).toContain("(10 B → 2.0 KB)");
    expect(noteOf({ ...diff, note: "submodule none abc" })).toContain("none → abc");
    expect(noteOf(diff)).toBe("");
    expect(bytes(3 << 20)).toBe("3.0 MB");
  });

  test("the state of a file in git", () => {
    const file = { key: "x", path: "x", status: "modified" as const };
    expect(stateOf(file)).toBe("committed");
    expect(stateOf({ ...file, staged: true, unstaged: true })).toBe("partly staged");
    expect(stateOf({ ...file, untracked: true })).toBe("untracked");
    expect(placeOf(comment({ to: 5 }))).toBe("src/a.py:3-5");
  });
});
