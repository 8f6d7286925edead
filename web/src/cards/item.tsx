// One item of a conversation. An item that did not change is not drawn again.

import { Component, type ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../parts/button";
import { Copy } from "../parts/code";
import { Icon } from "../parts/icon";
import { Markdown } from "../parts/markdown";
import { Menu, type MenuItem } from "../parts/menu";
import { Time } from "../parts/time";
import type { EndItem, Item, NoteItem, TextItem, UserItem } from "../state/items";
import { amount, duration, money, oneLine, plain } from "../state/text";
import { me } from "../wire/login";
import type { Block } from "../wire/types";
import { Call, Pictures } from "./call";
import { Decided, OpenRequest } from "./ask";
import { images } from "../state/calls";

export interface Acts {
  /** Missing if the session's agent cannot do it. */
  fork?: (message: string) => void;
  rewind?: (message: string) => void;
  edit: (item: UserItem) => void;
  again: (item: UserItem) => void;
  drop: (item: UserItem) => void;
}

interface ItemProps {
  item: Item;
  session: string;
  folder: string;
  acts: Acts | null;
  /** The seq to reveal if it is this item or inside it, else 0. */
  reveal: number;
}

export class ItemView extends Component<ItemProps> {
  override shouldComponentUpdate(next: ItemProps): boolean {
    const { item, folder, reveal, acts } = this.props;
    return next.item !== item || next.folder !== folder || next.reveal !== reveal || (next.acts === null) !== (acts === null);
  }

  override render({ item, session, folder, acts, reveal }: ItemProps): ComponentChildren {
    const shown = reveal && item.seq === reveal ? "item found" : "item";
    return (
      <li class={shown} data-seq={item.seq} data-key={item.key}>
        {this.inside(item, session, folder, acts, reveal)}
      </li>
    );
  }

  private inside(item: Item, session: string, folder: string, acts: Acts | null, reveal: number): ComponentChildren {
    switch (item.kind) {
      case "user":
        return <UserMessage item={item} acts={acts} />;
      case "text":
        return <AgentText item={item} />;
      case "thinking":
        return <Thought item={item} />;
      case "call":
        return (
          <Call
            item={item}
            session={session}
            folder={folder}
            reveal={reveal > 0}
            draw={(items) => <Items items={items} session={session} folder={folder} acts={null} reveal={reveal} />}
          />
        );
      case "end":
        return <TurnEnd item={item} />;
      case "note":
        return <Note item={item} />;
      case "ask":
        return item.ask.resolved ? (
          <Decided resolved={item.ask.resolved} />
        ) : item.ask.cancelled ? (
          <p class="quiet">Request cancelled: {plain(item.ask.cancelled)}</p>
        ) : (
          <OpenRequest ask={item.ask} session={session} />
        );
    }
  }
}

interface ItemsProps {
  items: Item[];
  session: string;
  folder: string;
  acts: Acts | null;
  reveal: number;
}

export function Items({ items, session, folder, acts, reveal }: ItemsProps) {
  return (
    <ol class="items">
      {items.map((item) => (
        <ItemView
          key={item.key}
          item={item}
          session={session}
          folder={folder}
          acts={acts}
          reveal={reveal && holds(item, reveal) ? reveal : 0}
        />
      ))}
    </ol>
  );
}

function holds(item: Item, seq: number): boolean {
  return item.seq === seq || (item.kind === "call" && (item.thread?.items.some((inner) => holds(inner, seq)) ?? false));
}

function messageActions(item: UserItem, { fork, rewind, edit }: Acts): MenuItem[] {
  const { message } = item;
  const items: MenuItem[] = [
    { label: "Edit and send again", icon: "edit", about: "Puts a copy into the message field", onChoose: () => edit(item) },
  ];
  if (fork)
    items.push({
      label: "Fork from here",
      icon: "fork",
      about: "Starts a new session from the end of this turn",
      onChoose: () => fork(message),
    });
  if (rewind)
    items.push({
      label: "Restore files…",
      icon: "rewind",
      about: "First shows what would change",
      onChoose: () => rewind(message),
    });
  return items;
}

function UserMessage({ item, acts }: { item: UserItem; acts: Acts | null }) {
  const ours = !item.by || item.by === me.value?.name;
  const who = item.via === "agent" ? "Agent" : ours ? "You" : plain(item.by);
  const tag = item.via === "steer" ? "steered" : "";
  const actions = acts && !item.sending && !item.error && item.via !== "agent" ? messageActions(item, acts) : [];
  return (
    <div class={`user ${item.via} ${item.sending ? "sending" : ""}`} role="group" aria-label={who === "You" ? "Your message" : `Message from ${who}`}>
      <header>
        <strong>{who}</strong>
        {tag && <span class="quiet">{tag}</span>}
        {item.sending ? <span class="quiet">sending…</span> : <Time at={item.at} />}
        {actions.length > 0 && <Menu label="Message actions" icon="more" bare items={actions} />}
      </header>
      <Content blocks={item.content} />
      {item.error && (
        <p class="banner">
          <span>Not sent: {item.error}</span>
          {acts && <Button label="Send again" onClick={() => acts.again(item)} />}
          {acts && <Button label="Discard" kind="quiet" onClick={() => acts.drop(item)} />}
        </p>
      )}
    </div>
  );
}

export function Content({ blocks }: { blocks: Block[] }) {
  return (
    <>
      {blocks.map((block, index) => {
        if (block.type === "text") return <UserText key={index} text={String((block as { text: unknown }).text)} />;
        if (block.type === "image") {
          const sources = images([block]);
          return sources.length ? <Pictures key={index} sources={sources} /> : <p key={index}>(picture)</p>;
        }
        const title = (block as { title?: unknown }).title;
        return (
          <p key={index} class="attached">
            <Icon name="file" /> {typeof title === "string" ? oneLine(title) : "Document"}
          </p>
        );
      })}
    </>
  );
}

const LONG = 2400;

/** A user's text, shown as typed. */
function UserText({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const clean = plain(text);
  const cut = !all && clean.length > LONG;
  return (
    <>
      <p class="words" dir="auto">{cut ? `${clean.slice(0, LONG)}…` : clean}</p>
      {cut && (
        <button type="button" class="unfold" onClick={() => setAll(true)}>
          Show all {amount(clean.length)} characters
        </button>
      )}
    </>
  );
}

function AgentText({ item }: { item: TextItem }) {
  return (
    <div class={item.error ? "agent-text bad" : "agent-text"} aria-busy={item.streaming}>
      {item.missing > 0 && <p class="quiet">Loading the beginning of this message…</p>}
      <Markdown text={item.text} streaming={item.streaming} />
      {!item.streaming && item.text && <Copy text={item.text} label="Copy message" />}
    </div>
  );
}

function Thought({ item }: { item: TextItem }) {
  const [open, setOpen] = useState(false);
  return (
    <div class="thought">
      <button type="button" class="thought-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="thinking" />
        <span>{item.streaming ? "Thinking…" : "Thought"}</span>
        {!open && <span class="about">{oneLine(item.streaming ? item.text.slice(-160) : item.text, 140)}</span>}
      </button>
      {open && <Markdown text={item.text} streaming={item.streaming} />}
    </div>
  );
}

const STATUS = { completed: "Done", failed: "Failed", cancelled: "Interrupted" } as const;

function TurnEnd({ item }: { item: EndItem }) {
  const usage = Object.values(item.usage);
  const sum = (pick: (one: (typeof usage)[number]) => number | undefined) =>
    usage.reduce((total, one) => total + (pick(one) ?? 0), 0);
  const into = sum((one) => one.input) + sum((one) => one.cache_write) + sum((one) => one.cache_read);
  const out = sum((one) => one.output);
  const facts = [
    item.ms ? duration(item.ms) : "",
    item.cost ? money(item.cost) : "",
    into ? `${amount(into)} in` : "",
    out ? `${amount(out)} out` : "",
  ].filter(Boolean);
  const models = Object.keys(item.usage).map((name) => oneLine(name, 60));
  return (
    <>
      {item.status === "failed" && <Failure item={item} />}
      <p class={`turn-end ${item.status}`} title={models.join(", ")}>
        <span>{STATUS[item.status]}</span>
        {facts.map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
        <Time at={item.at} />
      </p>
    </>
  );
}

function Failure({ item }: { item: EndItem }) {
  const reasons = [item.reason, ...item.errors].filter(Boolean).map((one) => plain(one));
  const all = reasons.join(" ").toLowerCase();
  const what = /max_turns/.test(all)
    ? "This turn reached its limit of model calls. Send “continue” to go on."
    : /budget/.test(all)
      ? "This session has used up its budget. Start a new session to continue."
      : /401|authentication|api key|login/.test(all)
        ? "The agent is not signed in to its model. Sign in on the gateway's machine, then send the message again."
        : /429|rate.?limit/.test(all)
          ? "The model's rate limit was reached. Wait until it resets, then send the message again."
          : /529|overloaded|50\d/.test(all)
            ? "The model's service is overloaded. Send the message again in a moment."
            : "Send the message again, or change your instructions.";
  return (
    <div class="banner" role="note">
      <span>
        {reasons.length ? reasons.join(" · ") : "The turn failed."} <strong>{what}</strong>
      </span>
    </div>
  );
}

function Note({ item }: { item: NoteItem }) {
  if (item.tone === "quiet")
    return (
      <p class="aside">
        {item.text} <Time at={item.at} />
      </p>
    );
  if (item.tone === "mark")
    return (
      <p class="mark" title={item.more}>
        <span>{item.text}</span>
      </p>
    );
  return (
    <div class={item.tone === "warn" ? "banner wait" : "banner"} role="note">
      <span>
        {item.text}
        {item.more && <span class="more">{item.more}</span>}
      </span>
    </div>
  );
}
