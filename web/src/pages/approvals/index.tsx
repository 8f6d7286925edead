// The open requests of all sessions, the oldest first. A request that is answered while the page is open stays, with who
// answered it.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Approval } from "../../cards/approval";
import { summaries } from "../../live/sessions";
import { refreshWaiting, settled, waiting, waitingError, waitingState } from "../../live/waiting";
import { Button } from "../../parts/button";
import { Icon } from "../../parts/icon";
import { useKeys } from "../../parts/keys";
import { Time } from "../../parts/time";
import { lastPart, oneLine } from "../../state/text";
import { Link } from "../../router";
import type { Pending } from "../../wire/types";

/** Requests shown so far; answered ones are removed when the user leaves the page. */
const seen = signal<Pending[]>([]);

export default function Approvals() {
  useEffect(() => {
    void refreshWaiting();
    return () => {
      seen.value = [];
    };
  }, []);
  useEffect(() => {
    const known = new Set(seen.value.map((one) => one.event.request));
    const fresh = waiting.value.filter((one) => !known.has(one.event.request));
    if (fresh.length) seen.value = [...seen.value, ...fresh];
  }, [waiting.value]);
  useKeys("Waiting for you", [
    { keys: ["j"], about: "Next request", run: () => step(1) },
    { keys: ["k"], about: "Previous request", run: () => step(-1) },
  ]);
  const open = new Set(waiting.value.map((one) => one.event.request));
  const shown = seen.value.filter((one) => open.has(one.event.request) || settled.value[one.event.request]);
  return (
    <main class="plain approvals">
      <h1>Waiting for you</h1>
      {waitingState.value === "failed" && (
        <p class="banner" role="alert">
          {waitingError.value}
          <Button label="Try again" kind="quiet" onClick={() => void refreshWaiting()} />
        </p>
      )}
      {waitingState.value === "ready" && !shown.length && (
        <div class="empty">
          <Icon name="check" size={28} />
          <p>Nothing needs you right now.</p>
        </div>
      )}
      <p class="hidden-visually" role="status">
        {open.size === 1 ? "1 request is waiting for you" : `${open.size} requests are waiting for you`}
      </p>
      <ul class="waiting-list">
        {shown.map((one) => (
          <li key={one.event.request} data-request={one.event.request} tabIndex={-1}>
            <SessionLink pending={one} />
            <Approval event={one.event} session={one.session} />
          </li>
        ))}
      </ul>
    </main>
  );
}

function SessionLink({ pending }: { pending: Pending }) {
  const summary = summaries.value.find((one) => one.session === pending.session);
  return (
    <p class="whose">
      <Link to={`/app/s/${pending.session}`}>{oneLine(summary?.title || "Session", 120)}</Link>
      {summary?.cwd && <span>{lastPart(summary.cwd)}</span>}
      <Time at={pending.event.at ?? 0} />
    </p>
  );
}

function step(by: number): void {
  const cards = [...document.querySelectorAll<HTMLElement>(".waiting-list > li")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  const next = cards[Math.max(0, Math.min(cards.length - 1, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
