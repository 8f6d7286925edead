// What a session asks a person: a permission, a question or a plan; once it is answered, by whom. Used on the page of all
// that waits and inside a conversation.

import { useEffect, useRef } from "preact/hooks";
import { type Settled, settled } from "../live/waiting";
import { Icon } from "../parts/icon";
import { Time } from "../parts/time";
import { oneLine } from "../state/text";
import "../style/approval.css";
import type { AskEvent } from "../wire/types";
import { Permission } from "./permission";
import { Plan } from "./plan";
import { Question } from "./question";

export function Approval({ event, session }: { event: AskEvent; session: string }) {
  const outcome = settled.value[event.request];
  if (outcome) return <Outcome {...outcome} />;
  switch (event.type) {
    case "permission.asked":
      return <Permission key={event.request} event={event} session={session} />;
    case "question.asked":
      return <Question key={event.request} event={event} session={session} />;
    case "plan.proposed":
      return <Plan key={event.request} event={event} session={session} />;
  }
}

const WORDS = { allow: "Allowed", deny: "Denied", "": "Resolved" } as const;

/** Who answered, on which device, when: the name of a credential is that of its device. */
function Outcome({ behavior, by, at }: Settled) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The button that had the focus is gone with its card: who uses the keyboard goes on from here.
    if (document.activeElement === document.body) place.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div ref={place} tabIndex={-1} class={`outcome ${behavior || "gone"}`} role="status">
      <Icon name={behavior === "allow" ? "check" : behavior === "deny" ? "close" : "clock"} />
      <span>
        <strong>{WORDS[behavior]}</strong>
        {by && <> by {oneLine(by, 80)}</>} · <Time at={at} />
      </span>
    </div>
  );
}
