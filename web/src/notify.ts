// Toasts for notices of other sessions, of the kinds chosen on this device; not for what is already on the screen.

import { signal } from "@preact/signals";
import { type Notice, onNotice } from "./live/notices";
import { toast } from "./parts/toast";
import { address, go } from "./router";
import { DEFAULT_TOASTS } from "./state/kinds";
import { oneLine } from "./state/text";

const KEPT = "fairlead.toasts";

export const toastKinds = signal<string[]>(read());

export function keepToastKinds(kinds: string[]): void {
  toastKinds.value = kinds;
  localStorage.setItem(KEPT, JSON.stringify(kinds));
}

function read(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "null");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : DEFAULT_TOASTS;
  } catch {
    return DEFAULT_TOASTS;
  }
}

export function placeOf(notice: Notice): string {
  if (notice.kind === "permission.asked") return "/app/approvals";
  return notice.session && notice.kind !== "session.deleted" ? `/app/s/${notice.session}` : "";
}

const LATE_MS = 60_000;

onNotice((notice) => {
  if (!toastKinds.value.includes(notice.kind)) return;
  // Older notices are in the feed; toasts for them would pile up.
  if (Date.now() - notice.at > LATE_MS) return;
  const at = address.value;
  if (notice.session && at === `/app/s/${notice.session}`) return;
  if (notice.kind === "permission.asked" && at === "/app/approvals") return;
  const to = placeOf(notice);
  const tone = notice.color === "error" ? "bad" : notice.kind === "permission.asked" ? "wait" : "plain";
  toast(oneLine(notice.message, 200), { tone, ...(to ? { action: { label: "Open", run: () => go(to) } } : {}) });
});
