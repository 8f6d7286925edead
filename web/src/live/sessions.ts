// The gateway's list of sessions, kept current by notices. Which sessions are unread is stored on this device.

import { batch, computed, signal } from "@preact/signals";
import { WireError, key, query, rest } from "../wire/rest";
import type { Summary } from "../wire/types";
import { onSessionChanges } from "./session-changes";

interface Page {
  sessions: Summary[];
  next?: string;
}

const PAGE = 100;
/** The gateway's maximum page size. */
const PAGE_AT_MOST = 1000;
const SEEN = "fairlead.seen";
const SEEN_AT_MOST = 2000;
const SINCE = "fairlead.since";

export const summaries = signal<Summary[]>([]);
export const listState = signal<"loading" | "ready" | "failed">("loading");
export const listError = signal("");
export const more = signal("");
export const showArchived = signal(false);

const seen = signal<Record<string, number>>(readSeen());
/** Sessions that changed before this device was first used do not count as unread. */
const since = Number(localStorage.getItem(SINCE)) || Date.now();
localStorage.setItem(SINCE, String(since));

/** Number of open requests of all sessions. */
export const waitingCount = computed(() => summaries.value.reduce((sum, one) => sum + one.pending, 0));

export function unread(summary: Summary): boolean {
  const idle = summary.state === "idle" || summary.state === "closed";
  return idle && summary.updated > (seen.value[summary.session] ?? since);
}

/** Marks a session as read up to `upTo`, or up to its time in the list if that is later. */
export function markSeen(session: string, upTo: number): void {
  const at = Math.max(upTo, summaries.peek().find((one) => one.session === session)?.updated ?? 0);
  if ((seen.value[session] ?? 0) >= at) return;
  const kept = Object.entries({ ...seen.value, [session]: at }).sort((one, two) => two[1] - one[1]);
  seen.value = Object.fromEntries(kept.slice(0, SEEN_AT_MOST));
  localStorage.setItem(SEEN, JSON.stringify(seen.value));
}

function readSeen(): Record<string, number> {
  try {
    return JSON.parse(localStorage.getItem(SEEN) ?? "{}") as Record<string, number>;
  } catch {
    return {};
  }
}

async function page(before: string, limit = PAGE): Promise<Page> {
  const archived = showArchived.value ? "any" : "false";
  return rest.get<Page>(`/v1/sessions${query({ limit, archived, before })}`);
}

let loading = 0;

/** Loads the first page again. Sessions of later pages stay, unless they moved to the front. */
export async function refresh(limit = PAGE): Promise<void> {
  if (!key.value) return;
  const turn = ++loading;
  try {
    const first = await page("", limit);
    if (turn !== loading) return;
    const ids = new Set(first.sessions.map((one) => one.session));
    const oldest = first.sessions.at(-1)?.updated ?? 0;
    const rest = first.next ? summaries.value.filter((one) => !ids.has(one.session) && one.updated < oldest) : [];
    batch(() => {
      summaries.value = [...first.sessions, ...rest];
      if (!rest.length) more.value = first.next ?? "";
      listState.value = "ready";
    });
  } catch (error) {
    if (turn !== loading) return;
    listError.value = error instanceof WireError ? error.message : String(error);
    if (listState.value === "loading") listState.value = "failed";
  }
}

export async function loadMore(): Promise<void> {
  const before = more.value;
  if (!before) return;
  more.value = "";
  const next = await page(before);
  const ids = new Set(summaries.value.map((one) => one.session));
  batch(() => {
    summaries.value = [...summaries.value, ...next.sessions.filter((one) => !ids.has(one.session))];
    more.value = next.next ?? "";
  });
}

export function setArchivedShown(shown: boolean): void {
  showArchived.value = shown;
  summaries.value = [];
  listState.value = "loading";
  void refresh();
}

const SOON_MS = 150;
let soon: ReturnType<typeof setTimeout> | undefined;
let reconnected = false;

onSessionChanges((sessions) => {
  // After a new connection any listed session may be gone, for example because it is no longer shared.
  reconnected ||= !sessions.length;
  clearTimeout(soon);
  soon = setTimeout(() => {
    void refresh(reconnected ? Math.min(PAGE_AT_MOST, Math.max(PAGE, summaries.peek().length)) : PAGE);
    reconnected = false;
  }, SOON_MS);
});

/** Whether a session may exist only as a transcript. After a reload, or by a link, the list is not loaded yet. */
export function mayBeTranscript(session: string): boolean {
  const known = summaries.peek().find((one) => one.session === session);
  return !known || known.state === "transcript";
}
