// The feed of notices: a separate socket, resumed at its cursor, and the recent notices. Toasts and lists build on it; open
// requests are in `waiting.ts`.

import { effect, signal } from "@preact/signals";
import { key, query, rest } from "../wire/rest";

export interface Notice {
  seq: number;
  at: number;
  kind: string;
  title: string;
  message: string;
  color?: "success" | "info" | "warning" | "error";
  session?: string;
  name?: string;
  meta?: Record<string, unknown>;
}

interface Page {
  notices: Notice[];
  first: number;
  cursor: string;
}

type Listener = (notice: Notice) => void;

const PAGE = 100;
const KEPT = 500;
const AGAIN_MS = 2000;

/** Newest first. */
export const notices = signal<Notice[]>([]);
export const hasOlder = signal(false);

const listeners = new Set<Listener>();
let first = 0;
let cursor = "";
let socket: WebSocket | null = null;
let generation = 0;
let again: ReturnType<typeof setTimeout> | undefined;

/** Calls the listener for each new notice, including those that a reconnect delivers. */
export function onNotice(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export async function loadOlder(): Promise<void> {
  const oldest = notices.value.at(-1)?.seq;
  if (!oldest) return;
  show(await rest.get<Page>(`/v1/notices${query({ before: oldest, limit: PAGE })}`));
}

function show(page: Page): void {
  first = page.first;
  add(page.notices);
}

function add(fresh: Notice[]): void {
  const known = new Set(notices.value.map((one) => one.seq));
  const all = [...notices.value, ...fresh.filter((one) => !known.has(one.seq))].sort((one, two) => two.seq - one.seq);
  notices.value = all.slice(0, Math.max(KEPT, notices.value.length));
  hasOlder.value = (notices.value.at(-1)?.seq ?? 0) > first;
}

async function connect(turn: number): Promise<void> {
  try {
    if (!cursor) {
      const page = await rest.get<Page>(`/v1/notices${query({ limit: PAGE })}`);
      if (turn !== generation) return;
      cursor = page.cursor;
      show(page);
    }
    const { ticket } = await rest.post<{ ticket: string }>("/v1/tickets");
    if (turn !== generation) return;
    open(turn, ticket);
  } catch {
    // The frame shows that the gateway is unreachable; this only retries.
    later(turn);
  }
}

function open(turn: number, ticket: string): void {
  const url = new URL(`/v1/notices/ws?ticket=${encodeURIComponent(ticket)}`, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const made = (socket = new WebSocket(url));
  made.onopen = () => made.send(JSON.stringify({ type: "subscribe", cursor }));
  made.onmessage = (message: MessageEvent<string>) => {
    const frame = JSON.parse(message.data) as { type: string; verdict?: string; cursor?: string } & Notice;
    if (frame.cursor) cursor = frame.cursor;
    if (frame.type === "subscribed" && frame.verdict === "gap") notices.value = [];
    if (frame.type !== "notice") return;
    add([frame]);
    for (const listener of listeners) listener(frame);
  };
  made.onclose = () => {
    if (turn === generation) later(turn);
  };
}

function later(turn: number): void {
  clearTimeout(again);
  if (turn === generation) again = setTimeout(() => void connect(turn), AGAIN_MS);
}

effect(() => {
  const signedIn = key.value !== "";
  generation++;
  clearTimeout(again);
  socket?.close();
  socket = null;
  cursor = "";
  notices.value = [];
  if (signedIn) void connect(generation);
});
