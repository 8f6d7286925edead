// A permission request: shows exactly what will run; then allow once, allow by a rule, edit the input, or deny.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../parts/button";
import { Diff } from "../parts/diff";
import { Field } from "../parts/field";
import { Icon } from "../parts/icon";
import { compare } from "../state/changes";
import { asText, oneLine, plain, shortPath } from "../state/text";
import { query, rest } from "../wire/rest";
import type { PermissionAsked } from "../wire/types";
import { useAnswer } from "./answering";

export interface RuleScope {
  rule: string;
  covers: string;
  enough?: boolean;
  problem?: string;
}

export interface Report {
  cwd?: string;
  commands?: { text: string; hidden?: boolean }[];
  writes?: string[];
  doubts?: string[];
  files?: { path: string; before: string; after: string; whole?: boolean; new?: boolean; outside?: boolean }[];
  host?: string;
  suggested?: RuleScope[];
  rule?: RuleScope;
  /** The agent runs the tool with the input as it is. */
  fixed_input?: boolean;
}

type Part = "rule" | "edit" | "deny" | "";

export function Permission({ event, session }: { event: PermissionAsked; session: string }) {
  const { answer, busy, error, ready, allowed } = useAnswer(session, event.request);
  const [report, setReport] = useState<Report | null>(null);
  const [part, setPart] = useState<Part>("");
  useEffect(() => {
    let gone = false;
    rest.get<Report>(`/v1/permissions/${encodeURIComponent(event.request)}`).then(
      (found) => !gone && setReport(found),
      // Without the report, the input itself is shown.
      () => !gone && setReport({}),
    );
    return () => {
      gone = true;
    };
  }, [event.request]);
  const toggle = (which: Part) => () => setPart(part === which ? "" : which);
  return (
    <article class="approval" aria-label={`Permission for ${oneLine(event.tool, 80)}`}>
      <header>
        <Icon name="waiting" />
        <h2>
          <span class="approval-tool">{oneLine(event.tool, 80)}</span> needs your approval
        </h2>
      </header>
      {event.title && <p class="approval-title">{oneLine(event.title, 300)}</p>}
      <WhatRuns event={event} report={report} />
      {event.reason && <p class="approval-why">{oneLine(event.reason, 400)}</p>}
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      {allowed ? (
        <div class="approval-answers">
          <Button
            label="Allow once"
            icon="check"
            kind="primary"
            class="large"
            disabled={!ready}
            busy={busy}
            onClick={() => void answer({ behavior: "allow" })}
          />
          <Button label="Deny" icon="close" class="large" disabled={!ready} expanded={part === "deny"} onClick={toggle("deny")} />
          <Button label="Always allow…" kind="quiet" disabled={!ready} expanded={part === "rule"} onClick={toggle("rule")} />
          {!report?.fixed_input && (
            <Button label="Edit…" kind="quiet" disabled={!ready} expanded={part === "edit"} onClick={toggle("edit")} />
          )}
        </div>
      ) : (
        <p class="approval-why">This device can view requests but not answer them: its credential lacks the scope “approve”.</p>
      )}
      {part === "deny" && <Denying answer={answer} ready={ready} />}
      {part === "rule" && <Remembering request={event.request} suggested={report?.suggested ?? []} answer={answer} ready={ready} />}
      {part === "edit" && <Changing event={event} answer={answer} ready={ready} />}
    </article>
  );
}

type Answer = ReturnType<typeof useAnswer>["answer"];

function WhatRuns({ event, report }: { event: PermissionAsked; report: Report | null }) {
  const command = event.input["command"];
  const files = report?.files ?? [];
  return (
    <div class="approval-what">
      {typeof command === "string" && <CommandLine command={command} report={report} about={event.title === event.input["description"] ? "" : event.input["description"]} />}
      {files.map((file) => (
        <section key={file.path}>
          <h3>
            {file.new ? "Creates" : "Changes"} <code>{shortPath(file.path, report?.cwd)}</code>
          </h3>
          {file.outside && <Doubt text="This file is outside this session's folders." />}
          {!file.whole && !file.outside && <p class="approval-why">Only the replaced parts are shown.</p>}
          <Diff change={compare(file.path, file.before, file.after)} />
        </section>
      ))}
      {report?.host && (
        <p>
          Fetches a page from <strong>{oneLine(report.host, 200)}</strong>.
        </p>
      )}
      {event.blocked_path && <Doubt text={`Path outside this session's folders: ${oneLine(event.blocked_path, 300)}`} />}
      {typeof command !== "string" && !files.length && report && <Input input={event.input} />}
    </div>
  );
}

function CommandLine({ command, report, about }: { command: string; report: Report | null; about: unknown }) {
  const parts = report?.commands ?? [];
  const several = parts.length > 1;
  return (
    <>
      {typeof about === "string" && about && <p class="approval-why">{oneLine(about, 300)}</p>}
      <pre class="command" tabIndex={0} role="group" aria-label="Command">
        <code>{plain(command)}</code>
      </pre>
      {several && (
        <section>
          <h3>Runs {parts.length} commands</h3>
          <ol class="command-parts">
            {parts.map((one, index) => (
              <li key={index}>
                <code>{plain(one.text)}</code>
                {one.hidden && <span class="tag">nested</span>}
              </li>
            ))}
          </ol>
        </section>
      )}
      {report?.writes?.map((target) => <Doubt key={target} text={`Writes to ${oneLine(target, 300)}`} />)}
      {report?.doubts?.map((doubt) => <Doubt key={doubt} text={`Cannot be determined before it runs: ${oneLine(doubt, 300)}`} />)}
    </>
  );
}

function Doubt({ text }: { text: string }) {
  return (
    <p class="doubt">
      <Icon name="alert" />
      <span>{text}</span>
    </p>
  );
}

function Input({ input }: { input: Record<string, unknown> }) {
  const fields = Object.entries(input);
  if (!fields.length) return <p class="approval-why">No input.</p>;
  return (
    <dl class="input-fields">
      {fields.map(([name, value]) => (
        <div key={name}>
          <dt>{oneLine(name, 80)}</dt>
          <dd>
            <pre tabIndex={0} role="group" aria-label={oneLine(name, 80)}>
              {plain(asText(value))}
            </pre>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Denying({ answer, ready }: { answer: Answer; ready: boolean }) {
  const [message, setMessage] = useState("");
  const deny = (interrupt: boolean) =>
    void answer({ behavior: "deny", ...(message.trim() ? { message: message.trim() } : {}), ...(interrupt ? { interrupt } : {}) });
  return (
    <form
      class="approval-more"
      onSubmit={(event) => {
        event.preventDefault();
        deny(false);
      }}
    >
      <Field label="Reason" hint="Optional. The agent receives this message.">
        <textarea class="input" rows={2} value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
      </Field>
      <div class="actions">
        <Button label="Deny" kind="danger" type="submit" class="large" disabled={!ready} />
        <Button label="Deny and stop the turn" kind="danger" disabled={!ready} onClick={() => deny(true)} />
      </div>
    </form>
  );
}

const ASK_MS = 250;

/** A rule is saved only after its scope was shown: the button is enabled when the gateway has returned what it covers. */
function Remembering(props: { request: string; suggested: RuleScope[]; answer: Answer; ready: boolean }) {
  const { request, suggested, answer, ready } = props;
  const [own, setOwn] = useState(suggested.length === 0);
  const [text, setText] = useState("");
  const [looked, setLooked] = useState<RuleScope | null>(null);
  useEffect(() => {
    setLooked(null);
    if (!own || !text.trim()) return;
    let gone = false;
    const timer = setTimeout(() => {
      rest.get<Report>(`/v1/permissions/${encodeURIComponent(request)}${query({ rule: text.trim() })}`).then(
        (report) => !gone && setLooked(report.rule ?? null),
        (error: unknown) =>
          !gone && setLooked({ rule: text, covers: "", problem: error instanceof Error ? error.message : String(error) }),
      );
    }, ASK_MS);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text, own, request]);
  const chosen = own ? (looked && !looked.problem ? [looked] : []) : suggested;
  return (
    <form
      class="approval-more"
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen.length) void answer({ behavior: "allow", remember: chosen.map((rule) => rule.rule) });
      }}
    >
      <fieldset>
        <legend>Always allow in this session</legend>
        {suggested.length > 0 && (
          <label class="choice">
            <input type="radio" name={`rule-${request}`} checked={!own} onChange={() => setOwn(false)} />
            <span>
              {suggested.map((rule) => (
                <span key={rule.rule} class="rule">
                  <strong>{plain(rule.covers)}</strong>
                  <code>{plain(rule.rule)}</code>
                </span>
              ))}
            </span>
          </label>
        )}
        <label class="choice">
          <input type="radio" name={`rule-${request}`} checked={own} onChange={() => setOwn(true)} />
          <span>Custom rule</span>
        </label>
      </fieldset>
      {own && (
        <Field
          label="Rule"
          hint="For example Bash(git status:*), Edit(src/**), WebFetch(domain:example.org)"
          {...(looked?.problem ? { wrong: `This rule ${looked.problem}.` } : {})}
        >
          <input
            class="input mono"
            type="text"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </Field>
      )}
      {own && looked && !looked.problem && (
        <p class="rule-scope" role="status">
          <strong>{plain(looked.covers)}</strong>
          {!looked.enough && " (this call would still need your approval)"}
        </p>
      )}
      <div class="actions">
        <Button
          label="Save rule and allow"
          kind="primary"
          type="submit"
          class="large"
          disabled={!ready || !chosen.length}
        />
      </div>
    </form>
  );
}

/** A command is edited as text, any other input as JSON. The result is checked like a new call. */
function Changing({ event, answer, ready }: { event: PermissionAsked; answer: Answer; ready: boolean }) {
  const command = event.input["command"];
  const plainCommand = typeof command === "string";
  const [text, setText] = useState(plainCommand ? command : JSON.stringify(event.input, null, 2));
  const [wrong, setWrong] = useState("");
  const send = () => {
    if (plainCommand) {
      void answer({ behavior: "allow", updated_input: { ...event.input, command: text } });
      return;
    }
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("expected an object");
      void answer({ behavior: "allow", updated_input: value as Record<string, unknown> });
    } catch (error) {
      setWrong(`Not a JSON object: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  return (
    <form
      class="approval-more"
      onSubmit={(submitted) => {
        submitted.preventDefault();
        send();
      }}
    >
      <Field label={plainCommand ? "Edited command" : "Edited input"} {...(wrong ? { wrong } : {})}>
        <textarea
          class="input mono"
          rows={Math.min(14, Math.max(2, text.split("\n").length + 1))}
          spellcheck={false}
          value={text}
          onInput={(typed) => {
            setText(typed.currentTarget.value);
            setWrong("");
          }}
        />
      </Field>
      <div class="actions">
        <Button label="Allow with changes" kind="primary" type="submit" class="large" disabled={!ready || !text.trim()} />
      </div>
    </form>
  );
}
