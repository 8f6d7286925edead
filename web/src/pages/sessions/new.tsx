// The form for a new session: folder, settings, first message.

import { useEffect, useRef, useState } from "preact/hooks";
import { Untrusted } from "../../cards/untrusted";
import { summaries } from "../../live/sessions";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { go, params } from "../../router";
import { advice } from "../../state/notes";
import { lastPart } from "../../state/text";
import { may } from "../../wire/login";
import { type WireError, rest } from "../../wire/rest";
import type { Agent, Reply } from "../../wire/types";
import { LINKS, MODELS, MODES } from "./choices";
import { FolderPicker } from "./folders";

const LAST = "fairlead.new";

interface Chosen {
  cwd: string;
  agent: string;
  model: string;
  mode: string;
  link: string;
}

function lastChosen(): Chosen {
  const fallback = { cwd: "", agent: "", model: "", mode: "default", link: "stdio" };
  try {
    return { ...fallback, ...(JSON.parse(localStorage.getItem(LAST) ?? "{}") as Partial<Chosen>) };
  } catch {
    return fallback;
  }
}

export function NewSession() {
  const [chosen, setChosen] = useState<Chosen>(() => {
    const last = lastChosen();
    return { ...last, cwd: params.value.get("cwd") ?? (last.cwd || (summaries.peek()[0]?.cwd ?? "")) };
  });
  const [text, setText] = useState("");
  const [title, setTitle] = useState("");
  const [branch, setBranch] = useState("");
  const [base, setBase] = useState("");
  const [picking, setPicking] = useState(false);
  const [error, setError] = useState<WireError | null>(null);
  const [busy, setBusy] = useState(false);
  const [agents, setAgents] = useState<Agent[]>([]);
  const key = useRef(crypto.randomUUID());
  const set = (change: Partial<Chosen>) => setChosen({ ...chosen, ...change });
  const folders = [...new Set(summaries.value.map((one) => one.cwd))].slice(0, 30);

  // The settings may have lost the agent or the link of the last session.
  const agent = agents.find((one) => one.name === chosen.agent) ?? agents.find((one) => one.default);
  const links = LINKS.filter((one) => !agent?.links?.length || agent.links.includes(one.value));
  const link = links.some((one) => one.value === chosen.link) ? chosen.link : "stdio";

  useEffect(() => {
    document.title = "New session · Fairlead";
    // Without the list, sessions run the gateway's default agent.
    rest.get<{ agents: Agent[] }>("/v1/agents").then(
      (found) => setAgents(found.agents),
      () => undefined,
    );
  }, []);

  const create = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const settings = { model: chosen.model, mode: chosen.mode, link };
    const named = agent && !agent.default ? { agent: agent.name } : {};
    const worktree = branch ? { worktree: { branch, ...(base ? { base } : {}) } } : {};
    const body = { cwd: chosen.cwd, ...worktree, title: title.trim(), settings, ...named, ...(text.trim() ? { text } : {}) };
    try {
      // A repeated request has the same key, so that it creates only one session.
      const made = await rest.post<Reply>("/v1/sessions", body, { headers: { "Idempotency-Key": key.current } });
      localStorage.setItem(LAST, JSON.stringify(chosen));
      go(`/app/s/${made.session}`, { replace: true });
    } catch (failure) {
      setError(failure as WireError);
      key.current = crypto.randomUUID();
      setBusy(false);
    }
  };

  return (
    <main class="main-pane new">
      <header class="session-head">
        <Button class="to-list" label="Back to sessions" icon="back" kind="quiet" bare onClick={() => go("/app")} />
        <h1>New session</h1>
      </header>
      <form class="stack" onSubmit={(event) => void create(event)}>
        <div class="with-button">
          <Field label="Folder" hint="Must be inside one of the gateway's roots. Empty: the first root.">
            <input
              class="input mono"
              list="known-folders"
              autocomplete="off"
              spellcheck={false}
              value={chosen.cwd}
              onInput={(event) => set({ cwd: event.currentTarget.value })}
            />
          </Field>
          <Button label="Browse…" icon="folder" onClick={() => setPicking(true)} />
          <datalist id="known-folders">
            {folders.map((cwd) => (
              <option key={cwd} value={cwd} />
            ))}
          </datalist>
        </div>
        {folders.length > 1 && (
          <div class="recent" role="group" aria-label="Recent folders">
            {folders
              .filter((cwd) => cwd && cwd !== chosen.cwd)
              .slice(0, 6)
              .map((cwd) => (
                <Button key={cwd} label={lastPart(cwd)} title={cwd} icon="folder" kind="quiet" onClick={() => set({ cwd })} />
              ))}
          </div>
        )}
        {agent?.name === "demo" && (
          <p class="banner wait" role="note">
            <span>
              The demo agent follows a script and has no model. Try <code>SCRIPT:tool</code> or <code>SCRIPT:todo</code>. Install
              Claude Code on the gateway's machine to run real sessions.
            </span>
          </p>
        )}
        <Untrusted folder={chosen.cwd} />
        <div class="columns">
          <Field label="Worktree" hint="Optional: a branch. The session works in a worktree of it, apart from other sessions.">
            <input
              class="input mono"
              autocomplete="off"
              spellcheck={false}
              placeholder="Work in the folder itself"
              value={branch}
              onInput={(event) => setBranch(event.currentTarget.value.trim())}
            />
          </Field>
          {branch && (
            <Field label="Begins at" hint="A branch or commit, if the branch is new. Empty: what is checked out.">
              <input
                class="input mono"
                autocomplete="off"
                spellcheck={false}
                value={base}
                onInput={(event) => setBase(event.currentTarget.value.trim())}
              />
            </Field>
          )}
        </div>
        <Field label="First message">
          <textarea
            class="input"
            rows={5}
            value={text}
            placeholder="What should the agent do?"
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void create(event);
            }}
          />
        </Field>
        <div class="columns">
          {agents.length > 1 && (
            <Field label="Agent" {...(agent?.problem ? { hint: agent.problem } : {})}>
              <select
                class="input"
                value={agent?.name}
                onChange={(event) => set({ agent: event.currentTarget.value })}
              >
                {agents.map((one) => (
                  <option key={one.name} value={one.name} disabled={Boolean(one.problem)}>
                    {one.name} {one.version}
                    {one.default ? " (default)" : ""}
                    {one.problem ? " (not available)" : ""}
                  </option>
                ))}
              </select>
            </Field>
          )}
          <Field label="Mode">
            <select
              class="input"
              value={chosen.mode}
              disabled={!may("approve")}
              onChange={(event) => set({ mode: event.currentTarget.value })}
            >
              {MODES.map((one) => (
                <option key={one.value} value={one.value}>
                  {one.label}
                </option>
              ))}
            </select>
          </Field>
          <Field label="Model">
            <input
              class="input"
              list="known-models"
              autocomplete="off"
              placeholder="The agent's default"
              value={chosen.model}
              onInput={(event) => set({ model: event.currentTarget.value.trim() })}
            />
          </Field>
          <datalist id="known-models">
            {MODELS.filter((one) => one.value).map((one) => (
              <option key={one.value} value={one.value} />
            ))}
          </datalist>
          <Field label="Link">
            <select class="input" value={link} onChange={(event) => set({ link: event.currentTarget.value })}>
              {links.map((one) => (
                <option key={one.value} value={one.value}>
                  {one.label}
                </option>
              ))}
            </select>
          </Field>
          <Field label="Name" hint="Optional. Defaults to the first message.">
            <input class="input" value={title} maxLength={200} onInput={(event) => setTitle(event.currentTarget.value)} />
          </Field>
        </div>
        {error && (
          <p class="banner" role="alert">
            <span>
              {error.message} {advice(error.code)}
            </span>
          </p>
        )}
        <div class="actions">
          <Button label="Cancel" kind="quiet" onClick={() => go("/app")} />
          <Button label="Start session" kind="primary" type="submit" busy={busy} />
        </div>
      </form>
      {picking && (
        <Dialog title="Choose a folder" onClose={() => setPicking(false)}>
          <FolderPicker
            value={chosen.cwd}
            onChoose={(cwd) => {
              set({ cwd });
              setPicking(false);
            }}
          />
        </Dialog>
      )}
    </main>
  );
}
