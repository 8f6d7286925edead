// The one WebSocket to /v1/ws: opened with a ticket, opened again whenever it ends, every subscription resumed at its
// cursor and every unanswered command sent again under its key. Knows frames, not what events mean.

import { signal } from "@preact/signals";
import { WireError, key, rest } from "./rest";
import type { Event, Passing, Reply, Subscribed } from "./types";

/** `offline`: nothing is tried until the browser has a network or the wait is over. */
export type Status = "live" | "connecting" | "offline";

export interface Place {
  after: number;
  log_id: string;
}

/** The callbacks of a subscription. `subscribed` comes first after every (re)connection. */
export interface Watcher {
  subscribed(answer: Subscribed): void;
  event(event: Event): void;
  passing?(frame: Passing): void;
  failed(error: WireError): void;
}

interface Subscription {
  session: string;
  place: Place | null;
  watcher: Watcher;
  /** Id of the frame that subscribed; events before its answer belong to what was before. */
  asked: string;
  ready: boolean;
  /** The position of the last hole: one that remains after subscribing again belongs to the log. */
  hole: number;
}

interface Waiting {
  frame: Record<string, unknown>;
  resolve: (reply: Reply) => void;
  reject: (error: WireError) => void;
}

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 15_000;
const QUIET_MS = 25_000; // a proxy may drop what is silent for 30 s
const PONG_MS = 10_000;

export class Wire {
  readonly status = signal<Status>("connecting");
  /** When the next attempt is made, in ms since 1970; 0 while none waits. */
  readonly nextTry = signal(0);
  private socket: WebSocket | null = null;
  private wanted = false;
  private attempt = 0;
  private generation = 0;
  private counter = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private quiet: ReturnType<typeof setTimeout> | undefined;
  private readonly subscriptions = new Map<string, Subscription>();
  private readonly waiting = new Map<string, Waiting>();

  /** Connect, and stay connected until `stop`. */
  start(): void {
    if (this.wanted) return;
    this.wanted = true;
    this.reconnect();
  }

  stop(): void {
    this.wanted = false;
    this.generation++;
    clearTimeout(this.retry);
    clearTimeout(this.quiet);
    this.socket?.close(1000);
    this.socket = null;
    this.status.value = "offline";
    for (const waiting of this.waiting.values()) waiting.reject(new WireError("signed_out", "You are signed out."));
    this.waiting.clear();
  }

  /** Retry now: the network is back, or the user asked for it. */
  reconnect(): void {
    if (!this.wanted || this.socket?.readyState === WebSocket.OPEN) return;
    this.attempt = 0;
    void this.connect();
  }

  /** Watch a session from a place, or from now on. One watcher a session; the returned function ends it. */
  subscribe(session: string, place: Place | null, watcher: Watcher): () => void {
    const subscription: Subscription = { session, place, watcher, asked: "", ready: false, hole: -1 };
    this.subscriptions.set(session, subscription);
    this.ask(subscription);
    return () => {
      if (this.subscriptions.get(session) !== subscription) return;
      this.subscriptions.delete(session);
      this.write({ type: "unsubscribe", session, id: this.id() });
    };
  }

  /** Sends a command, which takes effect once: without a connection it waits, and it is resent under the same key. */
  command(type: string, fields: Record<string, unknown>): Promise<Reply> {
    const frame = { type, key: crypto.randomUUID(), ...fields, id: this.id() };
    return new Promise((resolve, reject) => {
      this.waiting.set(frame.id, { frame, resolve, reject });
      this.write(frame);
    });
  }

  /** Sends a frame that is neither resent nor answered. */
  notify(type: string, fields: Record<string, unknown>): void {
    this.write({ type, ...fields });
  }

  private id(): string {
    return `c${++this.counter}`;
  }

  private write(frame: Record<string, unknown>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  private ask(subscription: Subscription): void {
    subscription.asked = this.id();
    subscription.ready = false;
    const place = subscription.place;
    const from = place ? { after: place.after, ...(place.log_id ? { log_id: place.log_id } : {}) } : {};
    this.write({ type: "subscribe", id: subscription.asked, session: subscription.session, ...from });
  }

  private async connect(): Promise<void> {
    const generation = ++this.generation;
    clearTimeout(this.retry);
    this.nextTry.value = 0;
    this.status.value = "connecting";
    let ticket: string;
    try {
      ticket = (await rest.post<{ ticket: string }>("/v1/tickets")).ticket;
    } catch (error) {
      if (generation === this.generation) this.later(error);
      return;
    }
    if (generation !== this.generation || !this.wanted) return;
    const url = new URL(`/v1/ws?ticket=${encodeURIComponent(ticket)}`, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url, ["fairlead.v1.json"]);
    this.socket = socket;
    socket.onopen = () => this.opened(socket);
    socket.onmessage = (message: MessageEvent<string>) => {
      if (this.socket === socket) this.received(message.data);
    };
    socket.onclose = (closed) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.later(closed.code === 4401 ? new WireError("bad_credential", "This device was signed out.") : null);
    };
  }

  private opened(socket: WebSocket): void {
    if (this.socket !== socket) return;
    this.attempt = 0;
    this.status.value = "live";
    this.listen();
    for (const subscription of this.subscriptions.values()) this.ask(subscription);
    for (const { frame } of this.waiting.values()) this.write(frame);
  }

  private later(cause: unknown): void {
    clearTimeout(this.quiet);
    for (const subscription of this.subscriptions.values()) subscription.ready = false;
    this.status.value = "offline";
    if (!this.wanted || !key.value || (cause instanceof WireError && cause.code === "bad_credential")) return;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.attempt++) * (0.7 + Math.random() * 0.6);
    this.nextTry.value = Date.now() + wait;
    this.retry = setTimeout(() => void this.connect(), wait);
  }

  /** Pings a connection that is silent for long, and drops it if it does not answer. */
  private listen(): void {
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => {
      this.write({ type: "ping" });
      this.quiet = setTimeout(() => this.drop(), PONG_MS);
    }, QUIET_MS);
  }

  /** The network is gone, so the connection is treated as lost. */
  lose(): void {
    if (this.socket) this.drop();
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.later(null);
  }

  private received(data: string): void {
    this.listen();
    const frame = JSON.parse(data) as Record<string, unknown> & { type: string };
    if (typeof frame["seq"] === "number" && frame["id"] !== undefined && !this.isAnswer(frame)) {
      this.event(frame as unknown as Event);
      return;
    }
    switch (frame.type) {
      case "subscribed":
        this.subscribed(frame as unknown as Subscribed);
        return;
      case "reply":
      case "error":
        this.answered(frame);
        return;
      case "presence":
      case "typing": {
        const passing = frame as unknown as Passing;
        this.subscriptions.get(passing.session)?.watcher.passing?.(passing);
        return;
      }
    }
  }

  /** A reply has a seq too: that of the event that the command made. */
  private isAnswer(frame: Record<string, unknown> & { type: string }): boolean {
    return frame.type === "reply" || frame["prev"] === undefined;
  }

  private event(event: Event): void {
    const subscription = this.subscriptions.get(event.session ?? "");
    if (!subscription?.ready) return;
    const place = subscription.place;
    if (place) {
      if (event.seq <= place.after) return;
      if ((event.prev ?? 0) > place.after && subscription.hole !== place.after) {
        // An event was lost, so subscribe again from the last position.
        subscription.hole = place.after;
        this.ask(subscription);
        return;
      }
      place.after = event.seq;
    }
    subscription.watcher.event(event);
  }

  private subscribed(answer: Subscribed): void {
    const subscription = this.subscriptions.get(answer.session);
    if (!subscription || subscription.asked !== answer.id) return;
    subscription.ready = true;
    const after = subscription.place && answer.verdict === "ok" ? subscription.place.after : answer.head;
    subscription.place = {
      after: answer.verdict === "gap" && subscription.place ? 0 : after,
      log_id: answer.log_id,
    };
    subscription.watcher.subscribed(answer);
  }

  private answered(frame: Record<string, unknown> & { type: string }): void {
    const id = frame["id"] as string;
    if (frame.type === "error") {
      const data = (frame["data"] as Record<string, unknown> | undefined) ?? {};
      const error = new WireError(String(frame["code"]), String(frame["message"]), 0, data);
      const waiting = this.waiting.get(id);
      if (waiting) {
        this.waiting.delete(id);
        waiting.reject(error);
        return;
      }
      const subscription = [...this.subscriptions.values()].find((one) => one.asked === id);
      subscription?.watcher.failed(error);
      return;
    }
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    waiting?.resolve(frame as unknown as Reply);
  }
}

export const wire = new Wire();

if (typeof window !== "undefined") {
  addEventListener("online", () => wire.reconnect());
  // The browser reports this sooner than a missing pong would.
  addEventListener("offline", () => wire.lose());
  addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") wire.reconnect();
  });
}
