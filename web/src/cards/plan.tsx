// A plan that the agent proposes: approve it, or continue planning with feedback.

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
    <article class="approval" aria-label="Plan for review">
      <header>
        <Icon name="list" />
        <h2>Plan for review</h2>
      </header>
      <div class="approval-what plan" tabIndex={0} role="group" aria-label="Plan text">
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
            label="Approve plan"
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
          <Field label="What should change" hint="Optional. The agent receives this message.">
            <textarea class="input" rows={2} value={message} onInput={(typed) => setMessage(typed.currentTarget.value)} />
          </Field>
          <div class="actions">
            <Button label="Send feedback" type="submit" class="large" disabled={!ready} />
          </div>
        </form>
      )}
    </article>
  );
}
