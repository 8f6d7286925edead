// Notices as an inbox: a request that is settled needs nobody any more, and is folded away.

import type { Notice } from "../live/notices";

/** The notices that are still of interest, and the outcomes of requests. The notice of a settled request itself is left
 * out: its outcome names it. */
export function inbox(notices: Notice[]): { shown: Notice[]; settled: Notice[] } {
  const requestOf = (notice: Notice) => String(notice.meta?.["requestId"] ?? "");
  const over = new Set(notices.filter((one) => one.kind === "permission.settled").map(requestOf));
  return {
    shown: notices.filter(
      (one) => one.kind !== "permission.settled" && !(one.kind === "permission.asked" && over.has(requestOf(one))),
    ),
    settled: notices.filter((one) => one.kind === "permission.settled"),
  };
}
