// Markdown as elements, block by block: the parser's tokens become vnodes, so an agent's text is never HTML.
// While text streams only its last blocks are parsed and drawn again.

import { Marked, type Token, type Tokens } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { FORMULAS } from "../state/formulas";
import { plain } from "../state/text";
import { Code } from "./code";
import { Formula } from "./formula";

const marked = new Marked({ gfm: true, extensions: FORMULAS });

interface Parsed {
  text: string;
  tokens: Token[];
}

/** The last blocks may still change their kind (a list that grows, a table that begins): those are read again. */
const UNSETTLED = 2;

export function lex(text: string, before?: Parsed): Token[] {
  if (!before || !text.startsWith(before.text)) return marked.lexer(text);
  const settled = before.tokens.slice(0, -UNSETTLED);
  const read = settled.map((token) => token.raw).join("");
  // The parser writes some white space in its own way; then the end of the parsed text is unknown.
  if (!text.startsWith(read)) return marked.lexer(text);
  return [...settled, ...marked.lexer(text.slice(read.length))];
}

export function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }) {
  const last = useRef<Parsed | undefined>(undefined);
  const tokens = useMemo(() => {
    const clean = plain(text);
    const found = lex(clean, streaming ? last.current : undefined);
    last.current = { text: clean, tokens: found };
    return found;
  }, [text, streaming]);
  return (
    <div class="markdown">
      {tokens.map((token, index) => (
        <Block key={index} token={token} streaming={streaming && index === tokens.length - 1} />
      ))}
    </div>
  );
}

function Block({ token, streaming }: { token: Token; streaming: boolean }) {
  // The same vnode for the same text: nothing below is compared again.
  return useMemo(() => block(token, streaming), [token.raw, token.type, streaming]);
}

function block(token: Token, streaming: boolean): VNode | null {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      // Always below the page's own headings, whatever level the agent chose.
      const Tag = `h${Math.min(6, (token as Tokens.Heading).depth + 2)}` as "h3";
      return <Tag dir="auto">{inlines(token.tokens)}</Tag>;
    }
    case "formula":
      return <Formula text={token["text"] as string} display />;
    case "paragraph":
      return <p dir="auto">{inlines(token.tokens)}</p>;
    case "text":
      return <p dir="auto">{token.tokens ? inlines(token.tokens) : unescape(token.text as string)}</p>;
    case "code": {
      const code = token as Tokens.Code;
      return <Code text={code.text} language={code.lang ?? ""} live={streaming} />;
    }
    case "blockquote":
      return <blockquote dir="auto">{blocks(token.tokens)}</blockquote>;
    case "hr":
      return <hr />;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    default:
      return <p>{token.raw}</p>;
  }
}

function blocks(tokens: Token[] | undefined): ComponentChildren {
  return tokens?.map((token, index) => <Block key={index} token={token} streaming={false} />);
}

function list(token: Tokens.List): VNode {
  const items = token.items.map((item, index) => (
    <li key={index} dir="auto" class={item.task ? "task" : undefined}>
      {item.task && <input type="checkbox" checked={item.checked ?? false} disabled aria-label="done" />}
      {item.tokens.map((inner, place) =>
        inner.type === "text" ? (
          <span key={place}>{inner.tokens ? inlines(inner.tokens) : unescape(inner.text as string)}</span>
        ) : inner.type === "checkbox" ? null : (
          <Block key={place} token={inner} streaming={false} />
        ),
      )}
    </li>
  ));
  return token.ordered ? (
    <ol dir="auto" start={Number(token.start) || 1}>
      {items}
    </ol>
  ) : (
    <ul dir="auto">{items}</ul>
  );
}

function table(token: Tokens.Table): VNode {
  const look = (index: number) => (token.align[index] ? `align-${token.align[index]}` : undefined);
  return (
    <div class="table" role="group" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {token.header.map((cell, index) => (
              <th key={index} dir="auto" class={look(index)}>
                {inlines(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, place) => (
            <tr key={place}>
              {row.map((cell, index) => (
                <td key={index} dir="auto" class={look(index)}>
                  {inlines(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inlines(tokens: Token[] | undefined): ComponentChildren {
  return tokens?.map((token, index) => inline(token, index));
}

function inline(token: Token, key: number): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong key={key}>{inlines(token.tokens)}</strong>;
    case "em":
      return <em key={key}>{inlines(token.tokens)}</em>;
    case "del":
      return <del key={key}>{inlines(token.tokens)}</del>;
    case "codespan":
      return <code key={key}>{token.text as string}</code>;
    case "br":
      return <br key={key} />;
    case "formulaInLine":
      return <Formula key={key} text={token["text"] as string} />;
    case "link":
      return link(token as Tokens.Link, key);
    case "image": {
      // No external content is loaded: a picture becomes its text and a link.
      const image = token as Tokens.Image;
      return outward(image.href, image.text || "image", key);
    }
    case "escape":
      return unescape(token.text as string);
    case "text":
      return token.tokens ? <span key={key}>{inlines(token.tokens)}</span> : unescape(token.text as string);
    default:
      return token.raw;
  }
}

function link(token: Tokens.Link, key: number): ComponentChildren {
  return outward(token.href, inlines(token.tokens), key);
}

/** Only web and mail links, without access to this page. Other targets are shown as text. */
function outward(href: string, children: ComponentChildren, key: number): ComponentChildren {
  const safe = /^(https?:\/\/|mailto:)/i.test(href);
  if (!safe) return <span key={key}>{children}</span>;
  return (
    <a key={key} href={href} target="_blank" rel="noopener noreferrer" title={href}>
      {children}
    </a>
  );
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" };

function unescape(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}
