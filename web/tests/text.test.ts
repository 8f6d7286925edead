// Text of others: what is left of it when it is shown.

import { describe, expect, it } from "vitest";
import { screen } from "../src/state/ansi";
import { compare, changeOf, sides } from "../src/state/changes";
import { headline, images, kindOf, todos, toolName } from "../src/state/calls";
import type { CallItem } from "../src/state/items";
import { duration, money, oneLine, plain } from "../src/state/text";

describe("plain", () => {
  it("takes control sequences, control characters and overrides away", () => {
    expect(plain("a\x1b[31mb\x1b]8;;http://evil\x07c\x1b]52;c;AAAA\x1b\\d\u202ee\x00\x9b1mf")).toBe("abcdef");
    expect(plain("one\r\ntwo\tthree\n")).toBe("one\ntwo\tthree\n");
    expect(plain("\x1bP1$r0m\x1b\\x\x1b")).toBe("x");
  });

  it("is one line where one is wanted", () => {
    expect(oneLine("  a \n\n b\tc ")).toBe("a b c");
    expect(oneLine("x".repeat(200), 10)).toBe("xxxxxxxxx…");
  });

  it("says durations and money as people do", () => {
    expect([duration(420), duration(4200), duration(42_000), duration(125_000), duration(7_260_000)]).toEqual([
      "420 ms",
      "4.2 s",
      "42 s",
      "2 min 5 s",
      "2 h 1 min",
    ]);
    expect([money(0), money(0.00123), money(0.0456), money(12.3)]).toEqual(["$0.00", "$0.0012", "$0.046", "$12.30"]);
  });
});

describe("a command's output", () => {
  const lines = (text: string) => screen(text).map((line) => line.map((run) => run.text).join(""));

  it("is what a terminal would have left", () => {
    expect(lines("10%\r50%\r100%\ndone\n")).toEqual(["100%", "done"]);
    expect(lines("abcdef\rXY")).toEqual(["XYcdef"]);
    expect(lines("loading...\r\x1b[Kok")).toEqual(["ok"]);
    expect(lines("abc\b\bX")).toEqual(["aXc"]);
    expect(lines("a\n\nb")).toEqual(["a", "", "b"]);
  });

  it("exchanges the colours of reversed text, also the page's own", () => {
    const looks = (text: string) => screen(text)[0]!.map((run) => run.look);
    expect(looks("\x1b[7mx\x1b[27my")).toEqual(["ap ki", ""]);
    expect(looks("\x1b[31;7mx")).toEqual(["ap k1"]);
    expect(looks("\x1b[42;7;1mx")).toEqual(["a2 b ki"]);
    expect(looks("\x1b[31;42;7mx\x1b[0my")).toEqual(["a2 k1", ""]);
  });

  it("has colours and nothing else of the control sequences", () => {
    expect(screen("\x1b[1;31mred\x1b[0m ok")).toEqual([
      [
        { text: "red", look: "a1 b" },
        { text: " ok", look: "" },
      ],
    ]);
    expect(screen("\x1b[38;5;2mg\x1b[39m\x1b[38;2;1;2;3mt")[0]).toEqual([
      { text: "g", look: "a2" },
      { text: "t", look: "" },
    ]);
    expect(lines("\x1b]0;title\x07x\x1b[2Jy\x1b[10;10Hz\x1b]52;c;QUJD\x07")).toEqual(["xyz"]);
  });
});

describe("a change", () => {
  it("is the agent's own patch where it gave one", () => {
    const patch = [{ oldStart: 5, newStart: 5, lines: [" a", "-b", "+c", "\\ No newline at end of file"] }];
    const change = changeOf("Edit", { file_path: "/x/y.ts" }, { structuredPatch: patch });
    expect(change).toMatchObject({ path: "/x/y.ts", added: 1, removed: 1 });
    expect(change?.hunks[0]?.rows.map((row) => [row.sign, row.old, row.new])).toEqual([
      [" ", 5, 5],
      ["-", 6, 0],
      ["+", 0, 6],
    ]);
  });

  it("is computed else, and stands side by side", () => {
    const change = compare("f", "one\ntwo\nthree\n", "one\n2\n2b\nthree\n");
    expect([change.added, change.removed]).toEqual([2, 1]);
    const pairs = sides(change.hunks[0]!).map(({ left, right }) => [left?.text, right?.text]);
    expect(pairs).toEqual([
      ["one", "one"],
      ["two", "2"],
      [undefined, "2b"],
      ["three", "three"],
    ]);
  });
});

describe("a call", () => {
  const call = (name: string, input: Record<string, unknown>, draft = ""): CallItem =>
    ({ kind: "call", call: "c", name, input, draft, thread: null, state: "running" }) as unknown as CallItem;

  it("says what it does", () => {
    expect(headline(call("Bash", { command: "ls" }), "")).toMatchObject({ verb: "Run", about: "ls" });
    expect(headline(call("Read", { file_path: "/p/a/b.ts", offset: 10, limit: 5 }), "/p").about).toBe("a/b.ts:10-14");
    expect(headline(call("Edit", { file_path: "/elsewhere/b.ts" }), "/p").about).toBe("/elsewhere/b.ts");
    expect(toolName("mcp__github__create_issue")).toBe("github: create_issue");
    expect(kindOf("mcp__x__y")).toBe("other");
  });

  it("says it while the model still writes", () => {
    expect(headline(call("Bash", {}, '{"command":"echo \\"hi\\" && l'), "").about).toBe('echo "hi" && l');
  });

  it("never shows a name with control sequences", () => {
    expect(headline(call("Read", { file_path: "/p/\x1b]8;;x\x07evil\u202e" }), "").about).toBe("/p/evil");
  });

  it("shows only pictures of known kinds that it carries itself", () => {
    const block = (media_type: string, data: string) => ({ type: "image", source: { type: "base64", media_type, data } });
    expect(images([block("image/png", "AAAA")])).toEqual(["data:image/png;base64,AAAA"]);
    expect(images([block("image/svg+xml", "AAAA"), block("image/png", "A\"><script>")])).toEqual([]);
    expect(images([{ type: "image", source: { type: "url", url: "http://evil/x.png" } }])).toEqual([]);
  });

  it("has todos", () => {
    expect(todos({ todos: [{ content: "a", status: "completed" }, { content: "b", status: "odd" }] })).toEqual([
      { text: "a", state: "completed" },
      { text: "b", state: "pending" },
    ]);
    expect(todos({ todos: "no list" })).toEqual([]);
  });
});
