// A request to a person: a permission, a question or a plan; once it is answered, who answered. Used on the page of
// waiting requests and inside a conversation.

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

const OUTCOMES = { allow: "Allowed", deny: "Denied", "": "Resolved" } as const;

/** Who answered, on which device, and when: a credential has the name of its device. */
function Outcome({ behavior, by, at }: Settled) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The focused button disappears with its card: keyboard users continue from here.
    if (document.activeElement === document.body) place.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div ref={place} tabIndex={-1} class={`outcome ${behavior || "gone"}`} role="status">
      <Icon name={behavior === "allow" ? "check" : behavior === "deny" ? "close" : "clock"} />
      <span>
        <strong>{OUTCOMES[behavior]}</strong>
        {by && <> by {oneLine(by, 80)}</>} · <Time at={at} />
      </span>
    </div>
  );
}
