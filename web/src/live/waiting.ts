// The open requests of all sessions, and the outcome of those answered while the page is open.

import { signal } from "@preact/signals";
import { WireError, key, rest } from "../wire/rest";
import { wire } from "../wire/socket";
import type { Pending } from "../wire/types";
import { onNotice } from "./notices";

export interface Settled {
  behavior: "allow" | "deny" | "";
  by: string;
  at: number;
}

export const waiting = signal<Pending[]>([]);
export const waitingState = signal<"loading" | "ready" | "failed">("loading");
export const waitingError = signal("");
/** By request: answered here, answered on another device, or cancelled. */
export const settled = signal<Record<string, Settled>>({});

const SOON_MS = 60;
const KEPT = 200;
let soon: ReturnType<typeof setTimeout> | undefined;
let turn = 0;

export async function refreshWaiting(): Promise<void> {
  if (!key.value) return;
  const mine = ++turn;
  try {
    const { permissions } = await rest.get<{ permissions: Pending[] }>("/v1/permissions");
    if (mine !== turn) return;
    waiting.value = permissions.sort((one, two) => (one.event.at ?? 0) - (two.event.at ?? 0));
    waitingState.value = "ready";
  } catch (error) {
    if (mine !== turn) return;
    waitingError.value = error instanceof WireError ? error.message : String(error);
    if (waitingState.value === "loading") waitingState.value = "failed";
  }
}

export function settle(request: string, how: Settled): void {
  const known = settled.value[request];
  // The gateway's notice names the user; our own answer, known a moment earlier, does not.
  if (known?.by && !how.by) return;
  const all = Object.entries({ ...settled.value, [request]: how }).slice(-KEPT);
  settled.value = Object.fromEntries(all);
}

function refreshSoon(): void {
  clearTimeout(soon);
  soon = setTimeout(() => void refreshWaiting(), SOON_MS);
}

onNotice((notice) => {
  if (!notice.kind.startsWith("permission.")) return;
  const { requestId, behavior, by } = notice.meta ?? {};
  if (notice.kind === "permission.settled" && typeof requestId === "string")
    settle(requestId, {
      behavior: behavior === "allow" || behavior === "deny" ? behavior : "",
      by: typeof by === "string" ? by : "",
      at: notice.at,
    });
  refreshSoon();
});
// Requests may have changed before this connection.
wire.status.subscribe((status) => {
  if (status === "live") refreshSoon();
});
