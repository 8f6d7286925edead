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
/** More toasts than are shown at a time; one that has disappeared can be dismissed again. */
const KEPT_OPEN = 10;

interface OpenToast {
  notice: Notice;
  dismiss: () => void;
}

let open: OpenToast[] = [];

function dismissWhere(obsolete: (notice: Notice) => boolean): void {
  for (const one of open) if (obsolete(one.notice)) one.dismiss();
  open = open.filter((one) => !obsolete(one.notice));
}

/** Whether the page at this address shows what the notice is about. */
function isShownAt(notice: Notice, at: string): boolean {
  if (notice.session && at === `/app/s/${notice.session}`) return true;
  return notice.kind === "permission.asked" && at === "/app/approvals";
}

address.subscribe((at) => dismissWhere((notice) => isShownAt(notice, at)));

onNotice((notice) => {
  if (notice.kind === "permission.settled")
    dismissWhere((one) => one.kind === "permission.asked" && one.meta?.["requestId"] === notice.meta?.["requestId"]);
  if (!toastKinds.value.includes(notice.kind)) return;
  // Older notices are in the feed; toasts for them would pile up.
  if (Date.now() - notice.at > LATE_MS) return;
  if (isShownAt(notice, address.value)) return;
  const to = placeOf(notice);
  const tone = notice.color === "error" ? "bad" : notice.kind === "permission.asked" ? "wait" : "plain";
  const action = to ? { action: { label: "Open", run: () => go(to) } } : {};
  const dismiss = toast(oneLine(notice.message, 200), { tone, ...action });
  open = [...open.slice(-KEPT_OPEN), { notice, dismiss }];
});
