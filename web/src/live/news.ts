// That something happened to sessions, for lists: what, they ask for themselves. Told by notices, and by every new
// connection, since anything may have happened before it.

import { wire } from "../wire/socket";
import { onNotice } from "./notices";

/** Which sessions; empty when it may be any. */
type Listener = (sessions: string[]) => void;

export function onNews(listener: Listener): () => void {
  const noticed = onNotice((notice) => {
    if (notice.session) listener([notice.session]);
  });
  const connected = wire.status.subscribe((status) => {
    if (status === "live") listener([]);
  });
  return () => {
    noticed();
    connected();
  };
}
