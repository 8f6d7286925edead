// Formulas in Markdown: `$$…$$` and `\[…\]` as blocks, `\(…\)` and `$…$` in a line. Prices are not formulas.

import type { TokenizerAndRendererExtension } from "marked";

/** A formula between single dollars has something that only formulas have: prices and variables of a shell do not. */
const FORMULA = /[\\^_{}=<>]|^[A-Za-z]$/;

const block: TokenizerAndRendererExtension = {
  name: "formula",
  level: "block",
  start: (text) => {
    const at = text.search(/\$\$|\\\[/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (text) => {
    const found = /^(?:\$\$([^$]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n+|$)/.exec(text);
    if (!found) return undefined;
    return { type: "formula", raw: found[0], text: (found[1] ?? found[2] ?? "").trim(), display: true };
  },
};

const inline: TokenizerAndRendererExtension = {
  name: "formulaInLine",
  level: "inline",
  start: (text) => {
    const at = text.search(/\$|\\\(/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (text) => {
    const round = /^\\\(((?:[^\n]|\n(?!\n))+?)\\\)/.exec(text);
    if (round) return { type: "formulaInLine", raw: round[0], text: round[1]!.trim() };
    const dollars = /^\$(?![\s$])((?:\\\$|[^$\n])+?)(?<![\s\\])\$(?![\d$])/.exec(text);
    if (!dollars || !FORMULA.test(dollars[1]!)) return undefined;
    return { type: "formulaInLine", raw: dollars[0], text: dollars[1]! };
  },
};

export const FORMULAS = [block, inline];
