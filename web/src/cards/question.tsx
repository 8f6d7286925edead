// Questions with their options: choose one or several of each, or type another answer.

import { useState } from "preact/hooks";
import { Button } from "../parts/button";
import { Icon } from "../parts/icon";
import { questionsOf } from "../state/questions";
import { oneLine, plain } from "../state/text";
import type { QuestionAsked } from "../wire/types";
import { useAnswer } from "./answering";

export function Question({ event, session }: { event: QuestionAsked; session: string }) {
  const { answer, busy, error, ready, allowed } = useAnswer(session, event.request);
  const asked = questionsOf(event.questions);
  const [chosen, setChosen] = useState<Record<number, string[]>>({});
  const [own, setOwn] = useState<Record<number, string>>({});
  const answerOf = (index: number) =>
    [...(chosen[index] ?? []), ...(own[index]?.trim() ? [own[index].trim()] : [])].join(", ");
  const complete = asked.every((_, index) => answerOf(index));
  const choose = (index: number, label: string, several: boolean) => {
    const before = chosen[index] ?? [];
    const after = !several ? [label] : before.includes(label) ? before.filter((one) => one !== label) : [...before, label];
    setChosen({ ...chosen, [index]: after });
    if (!several) setOwn({ ...own, [index]: "" });
  };
  const send = () =>
    void answer({
      behavior: "allow",
      answers: Object.fromEntries(asked.map((one, index) => [one.question, answerOf(index)])),
    });
  return (
    <article class="approval" aria-label="Question">
      <header>
        <Icon name="help" />
        <h2>{asked.length === 1 ? "The agent has a question" : `The agent has ${asked.length} questions`}</h2>
      </header>
      <form
        class="questions"
        onSubmit={(submitted) => {
          submitted.preventDefault();
          if (complete) send();
        }}
      >
        {asked.map((one, index) => (
          <fieldset key={index} disabled={!allowed}>
            <legend>
              {one.header && <span class="tag">{oneLine(one.header, 40)}</span>} {plain(one.question)}
            </legend>
            {one.options.map((option) => (
              <label key={option.label} class="choice">
                <input
                  type={one.several ? "checkbox" : "radio"}
                  name={`q-${event.request}-${index}`}
                  checked={(chosen[index] ?? []).includes(option.label)}
                  onChange={() => choose(index, option.label, one.several)}
                />
                <span>
                  <strong>{plain(option.label)}</strong>
                  {option.about && <small>{plain(option.about)}</small>}
                </span>
              </label>
            ))}
            <label class="own">
              <span>Other answer</span>
              <input
                class="input"
                type="text"
                value={own[index] ?? ""}
                onInput={(typed) => {
                  setOwn({ ...own, [index]: typed.currentTarget.value });
                  if (!one.several && typed.currentTarget.value) setChosen({ ...chosen, [index]: [] });
                }}
              />
            </label>
          </fieldset>
        ))}
        {error && (
          <p class="banner" role="alert">
            {error}
          </p>
        )}
        {allowed && (
          <div class="approval-answers">
            <Button label="Answer" kind="primary" type="submit" class="large" disabled={!ready || !complete} busy={busy} />
            <Button
              label="Skip"
              kind="quiet"
              disabled={!ready}
              onClick={() => void answer({ behavior: "deny", message: "The user did not answer." })}
            />
          </div>
        )}
      </form>
    </article>
  );
}
