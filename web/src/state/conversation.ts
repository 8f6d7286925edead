// Folds a session's events into items. The same events give the same items, in any batches.
// Rule: no DOM, no clock, no fetch; an item that changes becomes a new object, one that does not stays the same.

import type { AskEvent, Block, Event } from "../wire/types";
import { type Facts, NOTHING_KNOWN, learned } from "./facts";
import type { CallItem, Item, NoteItem, TextItem, Thread } from "./items";
import { note } from "./notes";
import { MAIN, Threads } from "./threads";

export interface QueuedItem {
  message: string;
  content: Block[];
  by: string;
}

export class Conversation {
  facts: Facts = NOTHING_KNOWN;
  queue: QueuedItem[] = [];
  pending = new Map<string, AskEvent>();
  /** Ids of messages in the log: the optimistic copy of such a message is dropped. */
  readonly logged = new Set<string>();
  last = 0;
  private threads = new Threads();
  private asks = new Map<string, { thread: string; key: string }>();

  get items(): Item[] {
    return this.threads.items;
  }

  apply(events: Iterable<Event>): void {
    for (const event of events) this.step(event);
    this.threads.settle();
  }

  private step(event: Event): void {
    if (event.seq > this.last) this.last = event.seq;
    switch (event.type) {
      case "user.message":
        this.logged.add(event.message);
        this.queue = this.queue.filter((one) => one.message !== event.message);
        this.threads.put(event.subagent, {
          ...base(event, `m:${event.message}`),
          kind: "user",
          message: event.message,
          content: event.content,
          by: event.by ?? "",
          via: event.synthetic ? "agent" : (event.via ?? "prompt"),
        });
        return;
      case "text.delta":
      case "thinking.delta":
        this.delta(event, event.type === "text.delta" ? "text" : "thinking");
        return;
      case "text":
      case "thinking":
        this.whole(event);
        return;
      case "input.delta":
        this.draft(event);
        return;
      case "tool.called":
        this.called(event);
        return;
      case "tool.progress":
        this.threads.change(event.call, (call) => ({ ...call, elapsed: event.elapsed_s ?? call.elapsed, note: event.note ?? "" }));
        return;
      case "tool.ended":
        this.ended(event);
        return;
      case "subagent.started":
        this.started(event);
        return;
      case "subagent.ended":
        this.threads.change(event.call, (call) =>
          call.thread
            ? { ...call, thread: { ...call.thread, state: threadState(event.status), summary: event.summary ?? "" } }
            : call,
        );
        return;
      case "subagent.resolved":
        this.resolve(event);
        return;
      case "permission.asked":
      case "question.asked":
      case "plan.proposed":
        this.asked(event);
        return;
      case "permission.resolved":
        this.settle(event.request, (ask) => ({ ...ask, resolved: event }));
        if (!this.asks.has(event.request) && event.behavior === "deny") this.aside(event);
        return;
      case "permission.cancelled":
        this.settle(event.request, (ask) => ({ ...ask, cancelled: event.reason }));
        return;
      case "turn.started":
        this.know({ turn: event.turn ?? event.id, turnSeen: true, turnBegan: event.at ?? 0, interrupting: false });
        return;
      case "turn.ended":
        this.turnEnded(event);
        return;
      case "message.queued":
        if (!this.logged.has(event.message) && !this.queue.some((one) => one.message === event.message))
          this.queue = [...this.queue, { message: event.message, content: event.content, by: event.by ?? "" }];
        this.logged.add(event.message);
        return;
      case "message.dequeued":
      case "message.cancelled":
        this.logged.add(event.message);
        this.queue = this.queue.filter((one) => one.message !== event.message);
        return;
      case "message.moved":
        this.moved(event.message, event.position);
        return;
      case "interrupt.asked":
        this.know({ interrupting: true });
        return;
      default:
        this.know(learned(event));
        this.aside(event);
    }
  }

  private know(facts: Partial<Facts> | null): void {
    if (facts) this.facts = { ...this.facts, ...facts };
  }

  private aside(event: Event): void {
    const last = this.items.at(-1);
    // The turn that failed because of it already shows the reason.
    const known = event.type === "agent.exited" && last?.kind === "end" && last.reason === event.reason;
    const made = known ? null : note(event);
    if (made) this.threads.put(event.subagent, { ...base(event, `n:${event.id}`), kind: "note", ...made } satisfies NoteItem);
  }

  // --- text

  private delta(event: Event & { type: "text.delta" | "thinking.delta" }, kind: "text" | "thinking"): void {
    const key = `b:${event.message}:${event.block}`;
    const name = this.threads.nameOf(event.subagent);
    const before = this.threads.find(name, key);
    const had = before && "text" in before && before.kind === kind ? (before as TextItem) : undefined;
    if (had && !had.streaming) return;
    const missing = had ? had.missing : event.offset;
    // By its offset, so that a repeated piece is not added twice.
    const kept = !had ? "" : had.count > event.offset ? cut(had.text, event.offset - missing) : had.text;
    const piece = event.text ?? "";
    this.threads.put(event.subagent, {
      ...(had ?? base(event, key)),
      key,
      kind,
      text: kept + piece,
      streaming: true,
      missing,
      count: event.offset + points(piece),
      error: "",
    });
  }

  private whole(event: Event & { type: "text" | "thinking" }): void {
    const key = `b:${event.message}:${event.block}`;
    const name = this.threads.nameOf(event.subagent);
    const had = this.threads.find(name, key);
    this.tokens(event);
    if (!event.text && event.type === "thinking" && !had) return;
    const error = event.type === "text" ? (event.error ?? "") : "";
    this.threads.put(event.subagent, { ...base(event, key), kind: event.type, text: event.text, streaming: false, missing: 0, count: 0, error });
  }

  private tokens(event: Event & { type: "text" | "thinking" | "tool.called" }): void {
    if (event.subagent || !event.tokens) return;
    const { input = 0, cache_read = 0, cache_write = 0, output = 0 } = event.tokens;
    this.know({ context: input + cache_read + cache_write + output });
  }

  // --- calls

  private draft(event: Event & { type: "input.delta" }): void {
    const name = this.threads.nameOf(event.subagent);
    const had = this.threads.find(name, `c:${event.call}`);
    if (had?.kind === "call" && had.state !== "writing") return;
    const text = had?.kind === "call" ? had.draft : "";
    this.threads.put(event.subagent, {
      ...(had?.kind === "call" ? had : newCall(event, event.call, event.name)),
      draft: text.slice(0, event.offset) + event.json,
    });
  }

  private called(event: Event & { type: "tool.called" }): void {
    const name = this.threads.nameOf(event.subagent);
    const had = this.threads.find(name, `c:${event.call}`);
    const from = had?.kind === "call" ? had : newCall(event, event.call, event.name);
    this.tokens(event);
    const state = from.state === "writing" ? "running" : from.state;
    // Its position is that of the call, as in a replay.
    this.threads.put(event.subagent, { ...from, ...base(event, from.key), name: event.name, input: event.input, draft: "", state });
    if (name !== MAIN && had === undefined) {
      this.threads.change(this.threads.ownerOf(name), (call) =>
        call.thread ? { ...call, thread: { ...call.thread, calls: call.thread.calls + 1 } } : call,
      );
    }
  }

  private ended(event: Event & { type: "tool.ended" }): void {
    if (this.threads.threadOf(event.call) === undefined) {
      // Its call is on an older page: shown by itself until that page is loaded.
      this.threads.put(event.subagent, newCall(event, event.call, event.name ?? ""));
    }
    const state = event.status === "interrupted" ? "interrupted" : event.is_error || event.status === "failed" ? "failed" : "done";
    this.threads.change(event.call, (call) => ({
      ...call,
      name: call.name || (event.name ?? ""),
      state,
      content: event.content,
      data: event.data,
      note: "",
      ended: event.at ?? 0,
    }));
  }

  private started(event: Event & { type: "subagent.started" }): void {
    if (this.threads.has(event.child)) return;
    if (this.threads.threadOf(event.call) === undefined) this.threads.put(event.subagent, newCall(event, event.call, "Task"));
    const thread: Thread = {
      id: event.child,
      title: event.title ?? "",
      type: event.kind ?? "",
      state: "running",
      background: event.background ?? false,
      items: this.threads.begin(event.child, event.call),
      calls: 0,
      summary: "",
    };
    this.threads.change(event.call, (call) => ({ ...call, thread }));
  }

  /** Moves items of the main thread to the subagent that produced them. */
  private resolve(event: Event & { type: "subagent.resolved" }): void {
    const messages = new Set(event.messages ?? []);
    const calls = new Set(event.calls ?? []);
    const theirs = (item: Item): boolean =>
      item.kind === "call" ? calls.has(item.call) : /^[mb]:/.test(item.key) && messages.has(item.key.split(":")[1] ?? "");
    if (this.threads.has(event.child)) this.threads.move(theirs, event.child);
  }

  // --- requests to a person

  private asked(event: AskEvent): void {
    this.pending.set(event.request, event);
    const name = this.threads.threadOf(event.call);
    if (name !== undefined) {
      this.asks.set(event.request, { thread: name, key: `c:${event.call}` });
      this.threads.change(event.call, (call) => ({ ...call, ask: { event } }));
      return;
    }
    const where = this.threads.nameOf(event.subagent);
    this.asks.set(event.request, { thread: where, key: `q:${event.request}` });
    this.threads.put(event.subagent, { ...base(event, `q:${event.request}`), kind: "ask", ask: { event } });
  }

  private settle(request: string, how: (ask: { event: AskEvent }) => CallItem["ask"]): void {
    this.pending.delete(request);
    const place = this.asks.get(request);
    const found = place && this.threads.find(place.thread, place.key);
    if (!place || !found) return;
    if (found.kind === "call" && found.ask?.event.request === request)
      this.threads.put(place.thread, { ...found, ask: how(found.ask) });
    else if (found.kind === "ask") this.threads.put(place.thread, { ...found, ask: how(found.ask) ?? found.ask });
  }

  // --- turns and the queue

  private turnEnded(event: Event & { type: "turn.ended" }): void {
    for (const call of event.closed ?? []) {
      this.threads.change(call, (one) => (one.state === "running" || one.state === "writing" ? { ...one, state: "interrupted" } : one));
    }
    for (const item of this.items) {
      if ((item.kind === "text" || item.kind === "thinking") && item.streaming && item.turn === (event.turn ?? ""))
        this.threads.put(undefined, { ...item, streaming: false });
    }
    this.pending = new Map([...this.pending].filter(([, ask]) => ask.turn !== event.turn));
    const windows = Object.values(event.usage ?? {}).map((one) => one.window ?? 0);
    this.know({
      turn: "",
      turnSeen: true,
      interrupting: false,
      compacting: false,
      cost: this.facts.cost + (event.cost_usd ?? 0),
      usage: event.usage ?? {},
      ...(windows.length ? { window: Math.max(...windows) } : {}),
    });
    this.threads.put(event.subagent, {
      ...base(event, `e:${event.turn ?? event.id}`),
      kind: "end",
      status: event.status,
      reason: event.reason ?? "",
      errors: event.errors ?? [],
      cost: event.cost_usd ?? 0,
      ms: event.duration_ms ?? 0,
      usage: event.usage ?? {},
    });
  }

  private moved(message: string, position: number): void {
    const found = this.queue.find((one) => one.message === message);
    if (!found) return;
    const others = this.queue.filter((one) => one !== found);
    this.queue = [...others.slice(0, position), found, ...others.slice(position)];
  }
}

function base(event: Event, key: string) {
  return { key, seq: event.seq, at: event.at ?? 0, turn: event.turn ?? "" };
}

function newCall(event: Event, call: string, name: string): CallItem {
  return {
    ...base(event, `c:${call}`),
    kind: "call",
    call,
    name,
    input: {},
    draft: "",
    state: "writing",
    content: undefined,
    data: undefined,
    elapsed: 0,
    note: "",
    ended: 0,
    ask: null,
    thread: null,
  };
}

function threadState(status: string | undefined): Thread["state"] {
  return status === "failed" || status === "stopped" ? status : "completed";
}

/** How many characters, as the gateway counts them: code points. */
function points(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) count++;
  return count;
}

/** The first `count` characters. */
function cut(text: string, count: number): string {
  return [...text].slice(0, Math.max(0, count)).join("");
}
