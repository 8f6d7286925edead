// One open session: a window of its log, folded into items. The live end comes by subscription, older and newer pages by
// REST calls. Messages of this device are shown before the log has them. `following` is live, catching up, offline or gap.

import { batch, signal } from "@preact/signals";
import { Conversation, type QueuedItem } from "../state/conversation";
import { type Facts, NOTHING_KNOWN } from "../state/facts";
import type { Item, UserItem } from "../state/items";
import { shortened } from "../state/window";
import { WireError, asWire, query, rest } from "../wire/rest";
import { wire } from "../wire/socket";
import type { AskEvent, Block, Capability, Event, EventPage, Glance, Passing, Reply, SessionView, Subscribed } from "../wire/types";
import { schedule } from "./frames";
import { mayBeTranscript } from "./sessions";
import { Typing } from "./typing";

export type Following = "live" | "catching up" | "offline" | "gap";

const PAGE = 150;
/** Maximum number of events in memory; others are loaded again when the user scrolls to them. */
const WINDOW = 1200;

export class LiveSession {
  readonly items = signal<Item[]>([]);
  readonly facts = signal<Facts>(NOTHING_KNOWN);
  readonly queue = signal<QueuedItem[]>([]);
  readonly pending = signal<AskEvent[]>([]);
  readonly sending = signal<UserItem[]>([]);
  readonly following = signal<Following>("catching up");
  readonly view = signal<SessionView | null>(null);
  readonly error = signal<WireError | null>(null);
  readonly watchers = signal<string[]>([]);
  readonly typing = new Typing();
  /** A message that the composer is to take back, to be changed and sent again. */
  readonly draft = signal<Block[] | null>(null);
  /** Whether there are events before the window, and after it (then it does not follow the end). */
  readonly before = signal(false);
  readonly after = signal(false);
  readonly loaded = signal(false);

  private fold = new Conversation();
  private events: Event[] = [];
  private oldest: number | null = null;
  private logId = "";
  private head = 0;
  /** The highest seq that was ever in `events`. */
  private seen = 0;
  private fresh: Event[] = [];
  private frame = 0;
  private stopWatching: (() => void) | null = null;
  private stopped = false;
  private stopStatus: () => void;

  constructor(readonly id: string) {
    this.stopStatus = wire.status.subscribe((status) => {
      if (status !== "live" && this.loaded.peek()) this.following.value = "offline";
    });
  }

  /** Whether the session's agent can do this; what it cannot do is not offered. */
  can(capability: Capability): boolean {
    return !this.view.value?.cannot?.includes(capability);
  }

  async open(at?: number): Promise<void> {
    this.error.value = null;
    try {
      if (!at && mayBeTranscript(this.id)) await this.openTranscript();
      if (this.stopped) return;
      // Both at once: with a slow connection the page waits for one round trip instead of two.
      let [view, end] = await this.viewAndEnd(at);
      if (view.importing && !at && !this.stopped) {
        // Another client has just opened it: following a log that is being imported would replay all of it.
        await this.openTranscript();
        [view, end] = await this.viewAndEnd(at);
      }
      if (this.stopped) return;
      this.view.value = view;
      if (at) await this.openAt(at);
      else this.showEnd(end!);
    } catch (error) {
      if (!this.stopped) this.error.value = asWire(error);
    }
  }

  private viewAndEnd(at?: number): Promise<[SessionView, EventPage | undefined]> {
    return Promise.all([rest.get<SessionView>(`/v1/sessions/${this.id}`), at ? undefined : this.lastPage()]);
  }

  /** A session whose transcript is not in its log yet: shows its end at once, while the gateway imports the file. */
  private async openTranscript(): Promise<void> {
    const glance = await this.glance();
    const events = glance?.events ?? [];
    const last = events.at(-1)?.id;
    if (this.stopped || !last || !glance?.importing) return;
    this.events = events.map((event, index) => ({ ...event, seq: index + 1 }));
    this.refold();
    batch(() => {
      this.before.value = true;
      this.loaded.value = true;
      this.following.value = "catching up";
    });
    // Events have the same ids in the log: when the last one is there, the import is complete.
    for (let tries = 0; tries < 600 && !this.stopped; tries++) {
      const page = await this.lastPage();
      if (page.events.some((event) => event.id === last)) return;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  /** The end of the transcript; null for a session that has none. */
  private async glance(): Promise<Glance | null> {
    try {
      return await rest.get<Glance>(`/v1/sessions/${this.id}/glance${query({ limit: PAGE })}`);
    } catch (error) {
      if (asWire(error).code === "not_found") return null;
      throw error;
    }
  }

  close(): void {
    this.stopped = true;
    this.stopWatching?.();
    this.stopStatus();
    cancelAnimationFrame(this.frame);
  }

  /** Loads the last page, then subscribes from its first event, so that streamed text is complete. */
  async openEnd(): Promise<void> {
    const page = await this.lastPage();
    if (!this.stopped) this.showEnd(page);
  }

  private lastPage(): Promise<EventPage> {
    return rest.get<EventPage>(`/v1/sessions/${this.id}/messages${query({ limit: PAGE })}`);
  }

  private showEnd(page: EventPage): void {
    this.logId = page.log_id;
    this.head = page.head;
    this.oldest = page.next ?? null;
    this.events = page.events;
    this.refold();
    batch(() => {
      this.before.value = page.next !== undefined;
      this.after.value = false;
      this.loaded.value = true;
    });
    const first = page.events[0]?.seq ?? 1;
    this.watch(first - 1);
  }

  /** Loads the events around a search hit; follows the end only after the user scrolls there. */
  async openAt(seq: number): Promise<void> {
    this.unwatch();
    const [older, newer] = await Promise.all([
      rest.get<EventPage>(`/v1/sessions/${this.id}/messages${query({ before: seq, limit: 60 })}`),
      rest.get<EventPage>(`/v1/sessions/${this.id}/events${query({ after: seq - 1, limit: PAGE })}`),
    ]);
    if (this.stopped) return;
    this.logId = newer.log_id;
    this.head = newer.head;
    this.oldest = older.next ?? null;
    this.events = [...older.events, ...newer.events];
    this.refold();
    batch(() => {
      this.before.value = older.next !== undefined;
      this.after.value = newer.next !== undefined;
      this.loaded.value = true;
    });
    if (newer.next === undefined) this.watch(this.events.at(-1)?.seq ?? 0);
  }

  private busy = false;

  async loadBefore(): Promise<void> {
    if (this.busy || this.oldest === null) return;
    this.busy = true;
    try {
      const path = `/v1/sessions/${this.id}/messages${query({ before: this.oldest, limit: PAGE })}`;
      const page = await rest.get<EventPage>(path);
      if (this.stopped) return;
      this.oldest = page.next ?? null;
      this.events = [...page.events, ...this.events];
      const cutEnd = this.events.length > WINDOW;
      if (cutEnd) {
        // Far from the end: drop it, and load it again on the way back.
        this.events.length = WINDOW - PAGE;
        this.unwatch();
      }
      this.refold();
      batch(() => {
        this.before.value = page.next !== undefined;
        if (cutEnd) this.after.value = true;
      });
    } finally {
      this.busy = false;
    }
  }

  async loadAfter(): Promise<void> {
    if (this.busy || !this.after.value) return;
    this.busy = true;
    try {
      const last = this.events.at(-1)?.seq ?? 0;
      const path = `/v1/sessions/${this.id}/events${query({ after: last, limit: PAGE })}`;
      const page = await rest.get<EventPage>(path);
      if (this.stopped) return;
      this.events = [...this.events, ...page.events];
      if (this.events.length > WINDOW) {
        this.events = this.events.slice(-(WINDOW - PAGE));
        this.oldest = this.events[0]?.seq ?? null;
        this.before.value = true;
      }
      this.refold();
      if (page.next === undefined) {
        this.after.value = false;
        this.watch(this.events.at(-1)?.seq ?? 0);
      }
    } finally {
      this.busy = false;
    }
  }

  // --- following the end

  private unwatch(): void {
    this.stopWatching?.();
    this.stopWatching = null;
  }

  private watch(after: number): void {
    this.unwatch();
    if (this.stopped) return;
    this.following.value = wire.status.peek() === "live" ? "catching up" : "offline";
    this.stopWatching = wire.subscribe(
      this.id,
      { after, log_id: this.logId },
      {
        subscribed: (answer) => this.subscribed(answer),
        event: (event) => this.arrived(event),
        passing: (frame) => this.passed(frame),
        failed: (error) => {
          this.error.value = error;
        },
      },
    );
  }

  private subscribed(answer: Subscribed): void {
    if (answer.verdict === "gap") {
      // The log was replaced: the shown items are invalid.
      this.following.value = "gap";
      this.events = [];
      this.fresh = [];
      this.unwatch();
      void this.open().then(() => undefined);
      return;
    }
    this.head = answer.head;
    this.settleFollowing();
  }

  private arrived(event: Event): void {
    this.fresh.push(event);
    if (!this.frame) this.frame = schedule(() => this.flush());
  }

  /** Once per animation frame, however many deltas arrived. */
  private flush(): void {
    this.frame = 0;
    const known = this.seen;
    const replayed = this.fresh.filter((event) => event.seq <= known);
    const fresh = this.fresh.filter((event) => event.seq > known);
    this.fresh = [];
    if (replayed.length) {
      // Replayed from the first event of the page, with deltas: insert those of the text that is being streamed.
      const had = new Set(this.events.map((event) => event.seq));
      const missing = replayed.filter((event) => !had.has(event.seq));
      if (missing.length) {
        this.events = [...this.events, ...missing].sort((one, two) => one.seq - two.seq);
        this.fold = new Conversation();
        this.fold.apply(this.events);
      }
    }
    this.events.push(...fresh);
    this.seen = Math.max(known, fresh.at(-1)?.seq ?? 0);
    this.fold.apply(fresh);
    if (this.events.length > 2 * WINDOW) this.shorten();
    this.show();
    this.settleFollowing();
  }

  /** Bounds the memory of a session that follows the end for long: joins deltas and keeps the newest events. */
  private shorten(): void {
    const { events, cut } = shortened(this.events, WINDOW);
    this.events = events;
    if (cut) {
      this.oldest = events[0]?.seq ?? null;
      this.before.value = true;
    }
    this.fold = new Conversation();
    this.fold.apply(this.events);
  }

  private settleFollowing(): void {
    const last = Math.max(this.seen, this.fresh.at(-1)?.seq ?? 0);
    if (wire.status.peek() !== "live") this.following.value = "offline";
    else this.following.value = last >= this.head ? "live" : "catching up";
  }

  private refold(): void {
    this.seen = this.events.at(-1)?.seq ?? 0;
    this.fold = new Conversation();
    this.fold.apply(this.events);
    this.show();
  }

  private show(): void {
    const { fold } = this;
    batch(() => {
      this.items.value = fold.items;
      this.facts.value = this.withView(fold.facts);
      this.queue.value = [...this.queueBefore(), ...fold.queue];
      this.pending.value = [...fold.pending.values()];
      if (this.sending.value.some((one) => fold.logged.has(one.message)))
        this.sending.value = this.sending.value.filter((one) => !fold.logged.has(one.message));
    });
  }

  /** Messages that were queued before the window begins and still waited when the session was opened. */
  private queueBefore(): QueuedItem[] {
    const waiting = this.view.peek()?.queue ?? [];
    const unknown = waiting.filter((one) => !this.fold.logged.has(one.message));
    return unknown.map((one) => ({ message: one.message, content: one.content, by: one.by ?? "" }));
  }

  /** Facts from before the window come from the session's view. */
  private withView(facts: Facts): Facts {
    const view = this.view.peek();
    if (!view) return facts;
    const { summary, settings } = view;
    return {
      ...facts,
      title: facts.title || summary.title,
      cwd: facts.cwd || summary.cwd,
      mode: facts.mode || (settings?.mode ?? summary.mode),
      model: facts.model || (settings?.model ?? summary.model),
      thinking: facts.thinking === undefined ? settings?.thinking : facts.thinking,
      turn: facts.turnSeen ? facts.turn : (view.turn ?? ""),
      archived: facts.archived || summary.archived,
    };
  }

  private passed(frame: Passing): void {
    if (frame.type === "presence") {
      this.watchers.value = Array.isArray(frame.data) ? (frame.data as string[]) : [];
      return;
    }
    this.typing.report(frame.name, (frame.data as { active?: boolean } | undefined)?.active !== false);
  }

  // --- commands of this device

  /** Shown at once, and matched with the log by the message id. */
  async send(content: Block[], steer = false): Promise<void> {
    const message = crypto.randomUUID();
    const shown: UserItem = {
      kind: "user",
      key: `m:${message}`,
      seq: Number.MAX_SAFE_INTEGER,
      at: Date.now(),
      turn: "",
      message,
      content,
      by: "",
      via: steer ? "steer" : "prompt",
      sending: true,
    };
    this.sending.value = [...this.sending.value, shown];
    try {
      await this.command(steer ? "steer" : "send", { content, message });
    } catch (error) {
      const reason = asWire(error).message;
      this.sending.value = this.sending.value.map((one) =>
        one.message === message ? { ...one, sending: false, error: reason } : one,
      );
      throw error;
    }
  }

  /** Discard a message that could not be sent. */
  forget(message: string): void {
    this.sending.value = this.sending.value.filter((one) => one.message !== message);
  }

  command(type: string, fields: Record<string, unknown> = {}): Promise<Reply> {
    return wire.command(type, { session: this.id, ...fields });
  }
}
