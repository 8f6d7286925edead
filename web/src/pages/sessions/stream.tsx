// The scrolling conversation: it follows the end while the user is there, keeps its position when older pages are loaded
// above, and shows the state of its connection.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Acts, Items } from "../../cards/item";
import type { LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { toastError } from "../../parts/toast";
import { duration } from "../../state/text";
import { wire } from "../../wire/socket";

const NEAR_END = 60;
const NEAR_EDGE = 900;
const STEADY = 3;
const TRIES = 250; // ten seconds

export function Stream({ live, acts, reveal }: { live: LiveSession; acts: Acts | null; reveal: number }) {
  const scroller = useRef<HTMLDivElement>(null);
  const stuck = useRef(!reveal);
  const anchor = useRef<{ key: string; top: number } | null>(null);
  const target = useRef(0);
  const opening = useRef(false);
  const [atEnd, setAtEnd] = useState(!reveal);
  const items = live.items.value;
  const sending = live.sending.value;
  const shown = live.after.value ? items : [...items, ...sending];

  const remember = () => {
    const box = scroller.current;
    if (!box) return;
    const top = box.getBoundingClientRect().top;
    const first = [...box.querySelectorAll<HTMLElement>(":scope > ol > .item")].find(
      (item) => item.getBoundingClientRect().bottom > top,
    );
    anchor.current = first ? { key: first.dataset["key"] ?? "", top: first.getBoundingClientRect().top } : null;
  };

  const load = () => {
    const box = scroller.current;
    if (!box || !live.loaded.peek() || target.current) return;
    if (box.scrollTop < NEAR_EDGE && live.before.peek()) {
      remember();
      live.loadBefore().catch(toastError);
    } else if (live.after.peek() && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_EDGE) {
      remember();
      live.loadAfter().catch(toastError);
    }
  };

  const scrolled = () => {
    const box = scroller.current;
    if (!box) return;
    const end = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
    // While the end is being loaded, a late event of an earlier scroll must not cancel it.
    stuck.current = opening.current || (end && !live.after.peek());
    setAtEnd(stuck.current);
    load();
  };

  // After every render: stay at the end, or keep the visible items where they are.
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box || target.current) return;
    if (stuck.current) {
      box.scrollTop = box.scrollHeight;
      return;
    }
    const kept = anchor.current;
    const item = kept && box.querySelector<HTMLElement>(`[data-key="${CSS.escape(kept.key)}"]`);
    if (kept && item) box.scrollTop += item.getBoundingClientRect().top - kept.top;
    anchor.current = null;
  }, [items, sending, live.after.value]);

  // A window that is not full, or that became wider, may need more.
  useEffect(() => {
    const timer = setTimeout(load, 50);
    return () => clearTimeout(timer);
  }, [items.length, live.before.value, live.after.value]);

  // Opened cards, loaded pictures and an on-screen keyboard change the height without a render.
  useEffect(() => {
    const box = scroller.current;
    const list = box?.querySelector(".items");
    if (!box || !list) return;
    const watch = new ResizeObserver(() => {
      if (stuck.current) box.scrollTop = box.scrollHeight;
    });
    watch.observe(list);
    watch.observe(box);
    return () => watch.disconnect();
  }, [live.loaded.value]);

  // While scrolling to a revealed item nothing else may move the page, until the item's position is stable: the items
  // around it get their real height only near the screen.
  useLayoutEffect(() => {
    if (!reveal) return;
    target.current = reveal;
    stuck.current = false;
    anchor.current = null;
    setAtEnd(false);
    let steady = 0;
    let tries = 0;
    const timer = setInterval(() => {
      if (target.current !== reveal) {
        clearInterval(timer);
        return;
      }
      const found = scroller.current?.querySelector<HTMLElement>(`[data-seq="${reveal}"]`);
      const before = found?.getBoundingClientRect().top;
      found?.scrollIntoView({ block: "center" });
      steady = found && found.getBoundingClientRect().top === before ? steady + 1 : 0;
      if (steady < STEADY && ++tries < TRIES) return;
      clearInterval(timer);
      target.current = 0;
      scrolled();
    }, 40);
    return () => {
      clearInterval(timer);
      target.current = 0;
    };
  }, [reveal]);

  // Scrolling by the user cancels the scroll to an item.
  const byHand = () => {
    target.current = 0;
    opening.current = false;
  };

  const toEnd = () => {
    target.current = 0;
    stuck.current = true;
    setAtEnd(true);
    if (live.after.peek()) {
      opening.current = true;
      live
        .openEnd()
        .catch(toastError)
        .finally(() => {
          opening.current = false;
        });
    } else if (scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  };

  return (
    <div class="stream">
      <div
        class="stream-scroll"
        ref={scroller}
        onScroll={scrolled}
        onWheel={byHand}
        onTouchMove={byHand}
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-busy={!live.loaded.value}
        aria-live="off"
      >
        {live.before.value && <p class="edge">Older messages…</p>}
        {live.loaded.value && !shown.length && <p class="edge">No messages yet.</p>}
        <Items items={shown} session={live.id} folder={live.facts.value.cwd} acts={acts} reveal={reveal} />
        {live.after.value ? <p class="edge">Newer messages…</p> : <Working live={live} />}
      </div>
      {!atEnd && (
        <Button
          class="to-end"
          label={live.facts.value.turn ? "Working: go to end" : "Go to end"}
          icon="down"
          onClick={toEnd}
        />
      )}
      <FollowStatus live={live} />
      <ScreenReaderStatus live={live} />
    </div>
  );
}

const ENDS = { completed: "The turn completed.", failed: "The turn failed.", cancelled: "The turn was interrupted." } as const;

/** For screen readers: what the agent does now, without its text. */
function ScreenReaderStatus({ live }: { live: LiveSession }) {
  const { turn } = live.facts.value;
  const last = live.items.value.at(-1);
  const text = live.pending.value.length
    ? "The agent is waiting for you."
    : turn
      ? "The agent is working."
      : last?.kind === "end"
        ? ENDS[last.status]
        : "";
  return (
    <p class="hidden-visually" role="status">
      {text}
    </p>
  );
}

function Working({ live }: { live: LiveSession }) {
  const { turn, turnBegan, interrupting, compacting } = live.facts.value;
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!turn) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [turn]);
  if (!turn) return null;
  const waiting = live.pending.value.length > 0;
  const word = interrupting ? "Interrupting" : waiting ? "Waiting for you" : compacting ? "Compacting" : "Working";
  const since = turnBegan && now > turnBegan ? duration(Math.floor((now - turnBegan) / 1000) * 1000) : "";
  return (
    <p class="turn-now">
      <span class={waiting ? "dot waiting" : "dot working"} />
      <span>{word}</span>
      <span class="quiet" aria-hidden="true">
        {since}
      </span>
    </p>
  );
}

/** How the shown items relate to the log; visible whenever they are not live. */
function FollowStatus({ live }: { live: LiveSession }) {
  const following = live.following.value;
  const status = wire.status.value;
  const error = live.error.value;
  const text =
    live.after.value || !live.loaded.value
      ? ""
      : error
        ? `Updates stopped: ${error.message}`
      : following === "gap"
        ? "The log was replaced. Reloading it."
        : status !== "live" || following === "offline"
          ? "Offline. This view may be out of date. Your messages are sent when the gateway is back."
          : following === "catching up"
            ? "Catching up…"
            : "";
  return (
    <p class="follow-status" role="status" data-following={live.after.value ? "elsewhere" : following}>
      {text}
    </p>
  );
}
