// Completion in the composer: what is being typed, what matches, and what replaces it.

import { describe, expect, it } from "vitest";
import { completed, matches, typedAt } from "../src/state/completion";

describe("what is being typed", () => {
  it.each([
    ["/rev", 4, "command", "rev", 0],
    ["/", 1, "command", "", 0],
    ["look at @src/a", 14, "file", "src/a", 8],
    ["@", 1, "file", "", 0],
    ["(@a) and more", 3, "file", "a", 1],
  ])("in %j is found before the caret", (text, caret, kind, typed, start) => {
    expect(typedAt(text, caret)).toEqual({ kind, text: typed, start });
  });

  it.each([
    ["mail me@example.org", 19],
    ["say /rev", 8],
    ["/rev now", 8],
    ["@a b", 4],
    ["plain", 5],
  ])("in %j is nothing to complete", (text, caret) => {
    expect(typedAt(text, caret)).toBeNull();
  });
});

describe("a completed text", () => {
  it("has the choice in place of what was typed, and the caret after it", () => {
    const text = "see @sr and go on";
    expect(completed(text, typedAt(text, 7)!, "src/app.ts")).toEqual({ text: "see @src/app.ts and go on", caret: 15 });
    expect(completed("/re", typedAt("/re", 3)!, "review")).toEqual({ text: "/review ", caret: 8 });
  });

  it("leaves the caret inside a folder, to go on", () => {
    const made = completed("@sr", typedAt("@sr", 3)!, "src/");
    expect(made).toEqual({ text: "@src/", caret: 5 });
    expect(typedAt(made.text, made.caret)).toEqual({ kind: "file", start: 0, text: "src/" });
  });
});

describe("matches", () => {
  const names = ["README.md", "src/", "src/app.tsx", "src/parts/app.css", "docs/map.md", "tests/application.py"];

  it("begin with the words, then their last part does, then they contain the letters in order", () => {
    expect(matches(names, "src/a", 9)).toEqual(["src/app.tsx", "src/parts/app.css"]);
    expect(matches(names, "app", 9)).toEqual(["src/app.tsx", "src/parts/app.css", "tests/application.py"]);
    expect(matches(names, "dmd", 9)).toEqual(["README.md", "docs/map.md"]);
    expect(matches(names, "zzz", 9)).toEqual([]);
  });

  it("are bounded, and without words are the first names", () => {
    expect(matches(names, "", 2)).toEqual(["README.md", "src/"]);
    expect(matches(names, "a", 3)).toHaveLength(3);
  });
});
