// Markdown that grows: reading only its end gives what reading all of it would.

import type { Token } from "marked";
import { describe, expect, it } from "vitest";
import { lex } from "../src/parts/markdown";

const DOCUMENTS = {
  prose: "# Title\n\nSome *text* with `code`\nand a second line.\n\nAnother paragraph.\n\n---\n\nThe end.",
  lists: "1. one\n2. two\n   - inner\n   - more\n\n   a paragraph inside\n3. three\n\nafter\n\n- [ ] open\n- [x] done\n",
  code: "Before\n\n```python\ndef f():\n\n    return 1\n```\n\nbetween\n\n    indented\n\n~~~\nx\n~~~\n\nafter",
  table: "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n\ntext\n\n> quote\n> more\n\n> another\n",
  html: "<details>\n<summary>x</summary>\n\ntext\n\n</details>\n\n<script>alert(1)</script>\n\nend <b>bold</b>",
  tabs: "-\tone\n-\ttwo\n\n\tcode\n\ntext\n\n1.\tthree\n\nend",
  setext: "Heading\n=======\n\nother\n---\n\ntext",
};

const shape = (tokens: Token[]) => tokens.map((token) => [token.type, token.raw]);

describe.each(Object.entries(DOCUMENTS))("a document of %s", (_name: string, text: string) => {
  it.each([1, 3, 10])("is the same when it comes in pieces of %i", (size: number) => {
    let before: { text: string; tokens: Token[] } | undefined;
    for (let end = size; end - size < text.length; end += size) {
      const part = text.slice(0, end);
      const tokens = lex(part, before);
      before = { text: part, tokens };
    }
    expect(shape(before!.tokens)).toEqual(shape(lex(text)));
  });
});

it("reads anew what did not only grow", () => {
  const before = { text: "one\n\ntwo", tokens: lex("one\n\ntwo") };
  expect(shape(lex("other", before))).toEqual(shape(lex("other")));
});
