// A plan that the agent proposes: approve it, or keep planning with a word about what is missing.

import { useState } from "preact/hooks";
import { Button } from "../parts/button";
import { Field } from "../parts/field";
import { Icon } from "../parts/icon";
import { Markdown } from "../parts/markdown";
import type { PlanProposed } from "../wire/types";
import { useAnswer } from "./answering";

export function Plan({ event, session }: { event: PlanProposed; session: string }) {
  const { answer, busy, error, ready, allowed } = useAnswer(session, event.request);
  const [keeping, setKeeping] = useState(false);
  const [message, setMessage] = useState("");
  return (
    <article class="approval" aria-label="A plan">
      <header>
        <Icon name="list" />
        <h2>A plan waits for you</h2>
      </header>
      <div class="approval-what plan" tabIndex={0} role="group" aria-label="The plan">
        <Markdown text={event.plan} />
      </div>
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      {allowed && (
        <div class="approval-answers">
          <Button
            label="Approve and begin"
            icon="check"
            kind="primary"
            class="large"
            disabled={!ready}
            busy={busy}
            onClick={() => void answer({ behavior: "allow" })}
          />
          <Button label="Keep planning" class="large" disabled={!ready} expanded={keeping} onClick={() => setKeeping(!keeping)} />
        </div>
      )}
      {keeping && (
        <form
          class="approval-more"
          onSubmit={(submitted) => {
            submitted.preventDefault();
            void answer({ behavior: "deny", message: message.trim() || "Keep planning." });
          }}
        >
          <Field label="What is to be different" hint="The agent reads it. It may stay empty.">
            <textarea class="input" rows={2} value={message} onInput={(typed) => setMessage(typed.currentTarget.value)} />
          </Field>
          <div class="actions">
            <Button label="Send back" type="submit" class="large" disabled={!ready} />
          </div>
        </form>
      )}
    </article>
  );
}
