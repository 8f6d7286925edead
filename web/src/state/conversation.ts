// The fold of a session's events into items. The same events give the same items, in whatever batches they come.
// Rule: no DOM, no clock, no fetch; an item that changes becomes a new object, one that does not stays the same.

import type { AskEvent, Block, Event, ModelUsage } from "../wire/types";
import type { CallItem, Item, NoteItem, TextItem, Thread } from "./items";
import { note } from "./notes";

interface Branch {
  items: Item[];
  places: Map<string, number>;
  /** The call that the subagent is shown in, and the branch of that call. */
  owner: string;
  parent: string | null;
}

export interface QueuedItem {
  message: string;
  content: Block[];
  by: string;
}

export interface Facts {
  title: string;
  cwd: string;
  mode: string;
  model: string;
  thinking: number | null | undefined;
  turn: string;
  turnBegan: number;
  interrupting: boolean;
  compacting: boolean;
  commands: string[];
  /** Tokens that the last answer of the main thread saw: how far the context is filled. */
  context: number;
  window: number;
  usage: Record<string, ModelUsage>;
  cost: number;
  archived: boolean;
}

const MAIN = "";

export class Conversation {
  facts: Facts = {
    title: "",
    cwd: "",
    mode: "",
    model: "",
    thinking: undefined,
    turn: "",
    turnBegan: 0,
    interrupting: false,
    compacting: false,
    commands: [],
    context: 0,
    window: 0,
    usage: {},
    cost: 0,
    archived: false,
  };
  queue: QueuedItem[] = [];
  pending = new Map<string, AskEvent>();
  /** Messages that the log tells of: an optimistic one of the same id is over. */
  readonly said = new Set<string>();
  last = 0;
  private branches = new Map<string, Branch>([[MAIN, branch("", null)]]);
  private calls = new Map<string, string>(); // call -> the branch it is in
  private asks = new Map<string, { branch: string; key: string }>();

  get items(): Item[] {
    return this.main.items;
  }

  apply(events: Iterable<Event>): void {
    for (const event of events) this.step(event);
    // Arrays that are shown get a new identity once a batch, not once an event.
    for (const one of this.touched) one.items = one.items.slice();
    this.touched.clear();
  }

  private touched = new Set<Branch>();

  private get main(): Branch {
    return this.branches.get(MAIN)!;
  }

  private step(event: Event): void {
    if (event.seq > this.last) this.last = event.seq;
    switch (event.type) {
      case "user.message":
        this.said.add(event.message);
        this.queue = this.queue.filter((one) => one.message !== event.message);
        this.put(event.subagent, {
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
        this.change(event.call, (call) => ({ ...call, elapsed: event.elapsed_s ?? call.elapsed, note: event.note ?? "" }));
        return;
      case "tool.ended":
        this.ended(event);
        return;
      case "subagent.started":
        this.started(event);
        return;
      case "subagent.ended":
        this.change(event.call, (call) =>
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
        this.know({ turn: event.turn ?? event.id, turnBegan: event.at ?? 0, interrupting: false });
        return;
      case "turn.ended":
        this.turnEnded(event);
        return;
      case "message.queued":
        if (!this.said.has(event.message) && !this.queue.some((one) => one.message === event.message))
          this.queue = [...this.queue, { message: event.message, content: event.content, by: event.by ?? "" }];
        this.said.add(event.message);
        return;
      case "message.dequeued":
      case "message.cancelled":
        this.said.add(event.message);
        this.queue = this.queue.filter((one) => one.message !== event.message);
        return;
      case "message.moved":
        this.moved(event.message, event.position);
        return;
      case "interrupt.asked":
        this.know({ interrupting: true });
        return;
      default:
        this.learn(event);
        this.aside(event);
    }
  }

  /** What an event says of the session as a whole. */
  private learn(event: Event): void {
    switch (event.type) {
      case "session.opened":
        this.know({ cwd: event.cwd, ...(event.title ? { title: event.title } : {}) });
        return;
      case "session.changed":
        this.know({
          ...(typeof event.title === "string" ? { title: event.title } : {}),
          ...(typeof event.archived === "boolean" ? { archived: event.archived } : {}),
        });
        return;
      case "agent.ready":
        this.know({
          ...(event.model ? { model: event.model } : {}),
          ...(event.mode ? { mode: event.mode } : {}),
          ...(event.cwd ? { cwd: event.cwd } : {}),
          ...(event.commands ? { commands: event.commands } : {}),
        });
        return;
      case "mode.changed":
        this.know({ mode: event.mode });
        return;
      case "model.changed":
        this.know({ model: event.model });
        return;
      case "thinking.changed":
        this.know({ thinking: event.budget });
        return;
      case "compaction":
        this.know({ compacting: event.phase === "started", ...(event.phase === "boundary" ? { context: 0 } : {}) });
        return;
    }
  }

  private know(facts: Partial<Facts>): void {
    this.facts = { ...this.facts, ...facts };
  }

  private aside(event: Event): void {
    const last = this.main.items.at(-1);
    // The turn that its end failed has told it.
    const known = event.type === "agent.exited" && last?.kind === "end" && last.reason === event.reason;
    const said = known ? null : note(event);
    if (said) this.put(event.subagent, { ...base(event, `n:${event.id}`), kind: "note", ...said } satisfies NoteItem);
  }

  // --- items and where they go

  private branchOf(subagent: string | undefined): [string, Branch] {
    const found = subagent ? this.branches.get(subagent) : undefined;
    return found ? [subagent!, found] : [MAIN, this.main];
  }

  private put(subagent: string | undefined, item: Item): void {
    const [name, where] = this.branchOf(subagent);
    const place = where.places.get(item.key);
    if (place === undefined) {
      where.places.set(item.key, where.items.length);
      where.items.push(item);
    } else where.items[place] = item;
    if (item.kind === "call") this.calls.set(item.call, name);
    this.touch(name);
  }

  private find(name: string, key: string): Item | undefined {
    const where = this.branches.get(name);
    const place = where?.places.get(key);
    return place === undefined ? undefined : where?.items[place];
  }

  /** A branch has changed, so the call that shows it has, up to the main thread. */
  private touch(name: string): void {
    let at = this.branches.get(name);
    while (at) {
      this.touched.add(at);
      if (at.parent === null) return;
      const parent: Branch | undefined = this.branches.get(at.parent);
      const place = parent?.places.get(`c:${at.owner}`);
      const shown = place === undefined ? undefined : parent?.items[place];
      if (parent && place !== undefined && shown?.kind === "call" && shown.thread) {
        // The same array: `apply` gives it a new identity, and this object is new anyway.
        parent.items[place] = { ...shown, thread: { ...shown.thread, items: at.items } };
      }
      at = parent;
    }
  }

  private change(call: string, how: (call: CallItem) => CallItem): void {
    const name = this.calls.get(call);
    if (name === undefined) return;
    const found = this.find(name, `c:${call}`);
    if (found?.kind === "call") {
      const changed = how(found);
      if (changed !== found) this.put(name, changed);
    }
  }

  // --- what was said

  private delta(event: Event & { type: "text.delta" | "thinking.delta" }, kind: "text" | "thinking"): void {
    const key = `b:${event.message}:${event.block}`;
    const [name] = this.branchOf(event.subagent);
    const before = this.find(name, key);
    const had = before && "text" in before && before.kind === kind ? (before as TextItem) : undefined;
    if (had && !had.streaming) return;
    const missing = had ? had.missing : event.offset;
    // By its offset, so that a piece that came before is not said twice.
    const kept = !had ? "" : had.count > event.offset ? cut(had.text, event.offset - missing) : had.text;
    const piece = event.text ?? "";
    this.put(event.subagent, {
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
    const [name] = this.branchOf(event.subagent);
    const had = this.find(name, key);
    this.tokens(event);
    if (!event.text && event.type === "thinking" && !had) return;
    const error = event.type === "text" ? (event.error ?? "") : "";
    this.put(event.subagent, { ...base(event, key), kind: event.type, text: event.text, streaming: false, missing: 0, count: 0, error });
  }

  private tokens(event: Event & { type: "text" | "thinking" | "tool.called" }): void {
    if (event.subagent || !event.tokens) return;
    const { input = 0, cache_read = 0, cache_write = 0, output = 0 } = event.tokens;
    this.know({ context: input + cache_read + cache_write + output });
  }

  // --- calls

  private draft(event: Event & { type: "input.delta" }): void {
    const [name] = this.branchOf(event.subagent);
    const had = this.find(name, `c:${event.call}`);
    if (had?.kind === "call" && had.state !== "writing") return;
    const text = had?.kind === "call" ? had.draft : "";
    this.put(event.subagent, {
      ...(had?.kind === "call" ? had : newCall(event, event.call, event.name)),
      draft: text.slice(0, event.offset) + event.json,
    });
  }

  private called(event: Event & { type: "tool.called" }): void {
    const [name] = this.branchOf(event.subagent);
    const had = this.find(name, `c:${event.call}`);
    const from = had?.kind === "call" ? had : newCall(event, event.call, event.name);
    this.tokens(event);
    const state = from.state === "writing" ? "running" : from.state;
    this.put(event.subagent, { ...from, name: event.name, input: event.input, draft: "", state });
    const owner = name === MAIN ? undefined : this.branches.get(name);
    if (owner && had === undefined) {
      this.change(owner.owner, (call) =>
        call.thread ? { ...call, thread: { ...call.thread, calls: call.thread.calls + 1 } } : call,
      );
    }
  }

  private ended(event: Event & { type: "tool.ended" }): void {
    if (!this.calls.has(event.call)) {
      // Its call is on an older page: shown by itself until that page is loaded.
      this.put(event.subagent, newCall(event, event.call, event.name ?? ""));
    }
    const state = event.status === "interrupted" ? "interrupted" : event.is_error || event.status === "failed" ? "failed" : "done";
    this.change(event.call, (call) => ({
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
    if (this.branches.has(event.child)) return;
    if (!this.calls.has(event.call)) this.put(event.subagent, newCall(event, event.call, "Task"));
    const parent = this.calls.get(event.call) ?? MAIN;
    const made = branch(event.call, parent);
    this.branches.set(event.child, made);
    const thread: Thread = {
      id: event.child,
      title: event.title ?? "",
      type: event.kind ?? "",
      state: "running",
      background: event.background ?? false,
      items: made.items,
      calls: 0,
      summary: "",
    };
    this.change(event.call, (call) => ({ ...call, thread }));
  }

  /** What was told in the main thread moves to the subagent that said it. */
  private resolve(event: Event & { type: "subagent.resolved" }): void {
    const target = this.branches.get(event.child);
    if (!target) return;
    const messages = new Set(event.messages ?? []);
    const calls = new Set(event.calls ?? []);
    const theirs = (item: Item): boolean =>
      item.kind === "call" ? calls.has(item.call) : /^[mb]:/.test(item.key) && messages.has(item.key.split(":")[1] ?? "");
    const moving = this.main.items.filter(theirs);
    if (!moving.length) return;
    this.main.items = this.main.items.filter((item) => !theirs(item));
    this.main.places = new Map(this.main.items.map((item, place) => [item.key, place]));
    this.touched.add(this.main);
    for (const item of moving) this.put(event.child, item);
  }

  // --- what a person is asked

  private asked(event: AskEvent): void {
    this.pending.set(event.request, event);
    const name = this.calls.get(event.call);
    if (name !== undefined) {
      this.asks.set(event.request, { branch: name, key: `c:${event.call}` });
      this.change(event.call, (call) => ({ ...call, ask: { event } }));
      return;
    }
    const [where] = this.branchOf(event.subagent);
    this.asks.set(event.request, { branch: where, key: `q:${event.request}` });
    this.put(event.subagent, { ...base(event, `q:${event.request}`), kind: "ask", ask: { event } });
  }

  private settle(request: string, how: (ask: { event: AskEvent }) => CallItem["ask"]): void {
    this.pending.delete(request);
    const place = this.asks.get(request);
    const found = place && this.find(place.branch, place.key);
    if (!place || !found) return;
    if (found.kind === "call" && found.ask?.event.request === request)
      this.put(place.branch, { ...found, ask: how(found.ask) });
    else if (found.kind === "ask") this.put(place.branch, { ...found, ask: how(found.ask) ?? found.ask });
  }

  // --- turns and the queue

  private turnEnded(event: Event & { type: "turn.ended" }): void {
    for (const call of event.closed ?? []) {
      this.change(call, (one) => (one.state === "running" || one.state === "writing" ? { ...one, state: "interrupted" } : one));
    }
    for (const item of this.main.items) {
      if ((item.kind === "text" || item.kind === "thinking") && item.streaming && item.turn === (event.turn ?? ""))
        this.put(undefined, { ...item, streaming: false });
    }
    this.pending = new Map([...this.pending].filter(([, ask]) => ask.turn !== event.turn));
    const windows = Object.values(event.usage ?? {}).map((one) => one.window ?? 0);
    this.know({
      turn: "",
      interrupting: false,
      compacting: false,
      cost: this.facts.cost + (event.cost_usd ?? 0),
      usage: event.usage ?? {},
      ...(windows.length ? { window: Math.max(...windows) } : {}),
    });
    this.put(event.subagent, {
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

function branch(owner: string, parent: string | null): Branch {
  return { items: [], places: new Map(), owner, parent };
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
