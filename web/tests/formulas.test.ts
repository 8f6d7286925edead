// Formulas: what is one, what is not, and that nothing but MathML comes out of them.

import { marked, type Token } from "marked";
import { describe, expect, it } from "vitest";
import { markup } from "../src/parts/katex";
import { lex } from "../src/parts/markdown";

function formulas(text: string): string[] {
  const found: string[] = [];
  marked.walkTokens(lex(text), (token: Token) => {
    if (token.type.startsWith("formula")) found.push(String((token as { text?: unknown }).text));
  });
  return found;
}

describe("formulas in Markdown", () => {
  it.each([
    ["The area is $\\pi r^2$.", ["\\pi r^2"]],
    ["with \\(x + 1\\) inside", ["x + 1"]],
    ["before\n\n$$\n\\sum_{i=1}^n i\n$$\n\nafter", ["\\sum_{i=1}^n i"]],
    ["\\[ a = b \\]", ["a = b"]],
    ["for $n$ items", ["n"]],
  ])("are found in %s", (text: string, expected: string[]) => {
    expect(formulas(text)).toEqual(expected);
  });

  it.each([
    "it costs $5 and then $10",
    "set $HOME and $PATH",
    "`$x^2$` is code",
    "```\n$$x^2$$\n```",
    "between $ 3 = 4 $ and",
    "a US$1=b, US$2",
  ])("are not seen in %s", (text: string) => {
    expect(formulas(text)).toEqual([]);
  });

  it("keep the text around them", () => {
    const paragraphs = lex("Let $x = 1$ be.\n\nAnd $5.").filter((token) => token.type === "paragraph");
    expect(paragraphs.map((token) => token.raw.trim())).toEqual(["Let $x = 1$ be.", "And $5."]);
  });
});

describe("the markup of a formula", () => {
  it("is MathML without the source", () => {
    const made = markup("\\frac{1}{2}", true);
    expect(made).toContain("<mfrac>");
    expect(made).not.toContain("annotation");
  });

  it.each(["\\href{javascript:alert(1)}{x}", "\\includegraphics{http://evil.test/x.png}", "\\htmlStyle{color:red}{x}"])(
    "makes no link, picture or style of %s",
    (text: string) => {
      let made = "";
      try {
        made = markup(text, false);
      } catch {
        return; // refused
      }
      expect(made).not.toMatch(/href=|src=|<img|<a |onerror/);
    },
  );

  it("writes text as text", () => {
    expect(markup("\\text{<img src=x onerror=alert(1)>}", false)).not.toContain("<img");
  });

  it.each(["\\def\\a{\\a\\a}\\a", "\\frac{1}"])("refuses %s", (text: string) => {
    expect(() => markup(text, false)).toThrow();
  });
});
