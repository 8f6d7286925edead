// A tool call, by its kind: commands with their output, changes as a diff, reads and searches as one line, todos as a
// list, subagents as a thread.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Code, Copy } from "../parts/code";
import { Diff } from "../parts/diff";
import { Icon, type IconName } from "../parts/icon";
import { Markdown } from "../parts/markdown";
import { Output } from "../parts/output";
import { type CallKind, ending, headline, images, isDenied, isWaiting, kindOf, outcome, todos } from "../state/calls";
import { changeOf } from "../state/changes";
import type { CallItem, Item } from "../state/items";
import { asText, duration, plain, textOf } from "../state/text";
import { Decided, OpenRequest } from "./ask";

const ICONS: Record<CallKind, IconName> = {
  command: "terminal",
  change: "edit",
  read: "file",
  search: "search",
  todo: "list",
  web: "globe",
  agent: "people",
  question: "help",
  plan: "list",
  other: "tool",
};

/** Collapsed until opened: most people do not read these. */
const FOLDED = new Set<CallKind>(["read", "search", "web", "other"]);

interface CallProps {
  item: CallItem;
  session: string;
  folder: string;
  draw: (items: Item[]) => ComponentChildren;
  /** Whether it contains the revealed item, so that it must be open. */
  reveal: boolean;
}

export function Call({ item, session, folder, draw, reveal }: CallProps) {
  const kind = kindOf(item.name);
  const [chosen, setChosen] = useState<boolean | null>(null);
  const waits = isWaiting(item);
  const byItself = item.thread ? item.thread.state === "running" : !FOLDED.has(kind) || item.state === "failed";
  // The card of an open request shows the call already.
  const open = (chosen ?? (reveal || byItself)) && (!waits || item.thread !== null);
  const { verb, about, code } = headline(item, folder);
  const id = `call-${item.call}`;
  return (
    <article class={`call ${kind} ${item.state}`} aria-labelledby={`${id}-head`}>
      <button
        type="button"
        class="call-head"
        id={`${id}-head`}
        aria-expanded={open}
        aria-controls={open ? `${id}-body` : undefined}
        onClick={() => setChosen(!open)}
      >
        <Icon name={ICONS[kind]} />
        <span class="verb">{verb}</span>
        {about && <span class={code ? "about mono" : "about"}>{about}</span>}
        <State item={item} />
      </button>
      {waits && item.ask && <OpenRequest ask={item.ask} session={session} />}
      {open && (
        <div class="call-body" id={`${id}-body`}>
          <Body item={item} kind={kind} folder={folder} draw={draw} />
        </div>
      )}
      {item.ask?.resolved && <Decided resolved={item.ask.resolved} />}
      {item.ask?.cancelled && <p class="quiet">Request cancelled: {plain(item.ask.cancelled)}</p>}
    </article>
  );
}

function State({ item }: { item: CallItem }) {
  if (item.thread) {
    const { thread } = item;
    const calls = `${thread.calls} call${thread.calls === 1 ? "" : "s"}`;
    const state = thread.state === "running" ? (thread.background ? "in the background" : "working") : thread.state;
    return (
      <span class="state">
        {thread.state === "running" && <span class="dot working" />} {state}, {calls}
      </span>
    );
  }
  if (item.state === "writing") return <span class="state">writing…</span>;
  if (isWaiting(item)) return <span class="state waits">waiting for you</span>;
  if (isDenied(item)) return <span class="state">denied</span>;
  if (item.state === "running")
    return (
      <span class="state">
        <span class="dot working" /> {item.elapsed ? duration(item.elapsed * 1000) : "running"}
      </span>
    );
  const text = item.state === "failed" ? "failed" : item.state === "interrupted" ? "interrupted" : outcome(item);
  return text ? <span class={item.state === "failed" ? "state bad" : "state"}>{text}</span> : null;
}

/** A subagent's report usually repeats its last message, which its thread shows already. */
function hasNewReport(thread: { items: Item[]; summary: string }): boolean {
  const report = thread.summary.trim();
  return report !== "" && !thread.items.some((one) => one.kind === "text" && one.text.trim() === report);
}

interface BodyProps {
  item: CallItem;
  kind: CallKind;
  folder: string;
  draw: CallProps["draw"];
}

function Body({ item, kind, draw }: BodyProps) {
  if (item.thread)
    return (
      <div class="thread">
        {draw(item.thread.items)}
        {hasNewReport(item.thread) && <Markdown text={item.thread.summary} />}
      </div>
    );
  switch (kind) {
    case "command":
      return <Command item={item} />;
    case "change": {
      const change = changeOf(item.name, item.input, item.data);
      return (
        <>
          {change && item.state !== "writing" && <Diff change={change} />}
          {item.state === "failed" && <Output text={textOf(item.content)} label="Error" />}
        </>
      );
    }
    case "todo":
      return <Todos item={item} />;
    case "read":
      return item.state === "failed" ? <Output text={textOf(item.content)} label="Error" /> : <FileText item={item} />;
    case "web":
    case "plan":
    case "question":
      return <Answer item={item} />;
    default:
      return (
        <>
          <Input item={item} />
          <Result item={item} />
        </>
      );
  }
}

function Command({ item }: { item: CallItem }) {
  const command = typeof item.input["command"] === "string" ? item.input["command"] : "";
  return (
    <div class="command">
      {command && (
        <div class="prompt">
          <pre tabIndex={0} role="group" aria-label="Command">
            <code>
              <Code text={plain(command)} language="bash" inner />
            </code>
          </pre>
          <Copy text={command} label="Copy command" />
        </div>
      )}
      {item.note && <p class="quiet">{plain(item.note)}</p>}
      <Result item={item} />
    </div>
  );
}

function FileText({ item }: { item: CallItem }) {
  const path = String(item.input["file_path"] ?? "");
  const pictures = images(item.content);
  if (pictures.length) return <Pictures sources={pictures} />;
  // The CLI numbers the lines; the numbers are taken off so that the code can be read and coloured.
  const text = textOf(item.content).replace(/^ *\d+[→\t]/gm, "");
  return <Code text={plain(text)} language={ending(path)} />;
}

function Todos({ item }: { item: CallItem }) {
  const list = todos(item.input);
  const done = list.filter((todo) => todo.state === "completed").length;
  return (
    <>
      <p class="quiet">
        {done} of {list.length} done
      </p>
      <ul class="todos">
        {list.map((todo, index) => (
          <li key={index} class={todo.state}>
            <span class="mark" aria-hidden="true">
              {todo.state === "completed" && <Icon name="check" />}
            </span>
            <span>
              <span class="hidden-visually">{todo.state.replace("_", " ")}: </span>
              {todo.text}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Answer({ item }: { item: CallItem }) {
  const text = textOf(item.content);
  return (
    <>
      {typeof item.input["prompt"] === "string" && <p class="quiet">{plain(item.input["prompt"])}</p>}
      {typeof item.input["plan"] === "string" && <Markdown text={item.input["plan"]} />}
      {text && (item.state === "failed" ? <Output text={text} label="Error" /> : <Markdown text={text} />)}
    </>
  );
}

function Input({ item }: { item: CallItem }) {
  if (item.state === "writing") return item.draft ? <Code text={plain(item.draft)} language="json" live /> : null;
  return Object.keys(item.input).length ? <Code text={plain(asText(item.input))} language="json" /> : null;
}

function Result({ item }: { item: CallItem }) {
  const pictures = images(item.content);
  const text = textOf(item.content);
  return (
    <>
      {text && <Output text={text} />}
      {pictures.length > 0 && <Pictures sources={pictures} />}
    </>
  );
}

export function Pictures({ sources }: { sources: string[] }) {
  return (
    <div class="pictures">
      {sources.map((source, index) => (
        <img key={index} src={source} alt={`Picture ${index + 1}`} loading="lazy" />
      ))}
    </div>
  );
}
