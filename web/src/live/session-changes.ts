// Signals that sessions changed, so that lists load them again. The sources are notices, and every new connection, because
// changes may have been missed before it.

import { wire } from "../wire/socket";
import { onNotice } from "./notices";

/** Receives the changed sessions; empty if any session may have changed. */
type Listener = (sessions: string[]) => void;

export function onSessionChanges(listener: Listener): () => void {
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
