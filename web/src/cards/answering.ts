// Answers a request: sent once under a key, resent after a lost connection, and shown on the card at once.

import { asWire } from "../wire/rest";
import { useEffect, useState } from "preact/hooks";
import { settle } from "../live/waiting";
import { may } from "../wire/login";
import { wire } from "../wire/socket";

export interface AnswerFields {
  behavior: "allow" | "deny";
  message?: string;
  updated_input?: Record<string, unknown>;
  remember?: string[];
  answers?: Record<string, unknown>;
  interrupt?: boolean;
}

/** Milliseconds in which a new card accepts no answer: a tap may have been meant for something else. */
const ARMED_MS = 500;

export function useAnswer(session: string, request: string) {
  const [busy, setBusy] = useState(false);
  const [armed, setArmed] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setArmed(true), ARMED_MS);
    return () => clearTimeout(timer);
  }, []);
  const answer = async (fields: AnswerFields): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      await wire.command("answer", { session, request, ...fields });
      settle(request, { behavior: fields.behavior, by: "", at: Date.now() });
    } catch (caught) {
      const failure = asWire(caught);
      setError(failure.message);
      // Another user answered first: the card then shows who.
      if (failure.code === "stale" && typeof failure.data["by"] === "string")
        settle(request, { behavior: "", by: failure.data["by"], at: Date.now() });
    }
    setBusy(false);
  };
  return { answer, busy, error, ready: armed && !busy && may("approve"), allowed: may("approve") };
}
