// The header of a session: its name, its context usage, and the menu of commands for the whole session.

import { useState } from "preact/hooks";
import type { LiveSession } from "../../live/session";
import { refresh, summaries } from "../../live/sessions";
import { Button } from "../../parts/button";
import { Confirm, Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Menu, type MenuItem } from "../../parts/menu";
import { toast, toastError } from "../../parts/toast";
import { go } from "../../router";
import { mayManage } from "../../state/sharing";
import { amount, money, oneLine } from "../../state/text";
import { relatives } from "../../state/tree";
import { may, me } from "../../wire/login";
import { query, rest } from "../../wire/rest";
import type { Summary } from "../../wire/types";
import { titleOf } from "./list";
import { ShareDialog } from "./share";

type Asking = "rename" | "share" | "delete" | "";

export function Header({ live, title, onFind }: { live: LiveSession; title: string; onFind: () => void }) {
  const [asking, setAsking] = useState<Asking>("");
  const { cwd, context, window, archived } = live.facts.value;
  const listed = summaries.value.find((one) => one.session === live.id);
  const summary = listed ?? live.view.value?.summary;
  const cost = summary?.cost_usd ?? 0;
  const watchers = live.watchers.value.length;
  const done = (message: string) => () => {
    toast(message);
    void refresh();
  };
  const items: MenuItem[] = [
    { label: "Browse files", icon: "folder", onChoose: () => go(`/app/s/${live.id}/files`) },
    { label: "Find in this session", icon: "search", onChoose: onFind },
    { label: "Export as HTML", icon: "download", onChoose: () => void save(live.id, "html") },
    { label: "Export as JSON lines", icon: "download", onChoose: () => void save(live.id, "jsonl") },
  ];
  if (cwd && may("terminal"))
    items.push({
      label: "New terminal here",
      icon: "terminal",
      about: "A shell in the session's folder",
      onChoose: () => go(`/app/terminals/${live.id.slice(0, 8)}${query({ cwd })}`),
    });
  if (live.view.value?.settings?.link === "terminal" && may("terminal"))
    items.unshift({ label: "Open terminal", icon: "terminal", onChoose: () => go(`/app/terminals/session/${live.id}`) });
  const fork: MenuItem = {
    label: "Fork session",
    icon: "fork",
    onChoose: () =>
      void live
        .command("fork")
        .then((reply) => go(`/app/s/${reply.session}`))
        .catch(toastError),
  };
  const manages = summary !== undefined && mayManage(me.value, summary.owner);
  if (manages) items.push({ label: "Share…", icon: "people", onChoose: () => setAsking("share") });
  if (may("chat"))
    items.push(
      { label: "Rename…", icon: "edit", onChoose: () => setAsking("rename") },
      ...(live.can("fork") ? [fork] : []),
      {
        label: archived ? "Unarchive" : "Archive",
        icon: "archive",
        onChoose: () =>
          void live
            .command("archive", { archived: !archived })
            .then(done(archived ? "Session unarchived" : "Session archived"))
            .catch(toastError),
      },
      {
        label: "Stop agent",
        about: "The next message resumes the session",
        icon: "stop",
        onChoose: () => void live.command("close").then(done("Agent stopped")).catch(toastError),
      },
    );
  if (manages) items.push({ label: "Delete…", icon: "trash", danger: true, onChoose: () => setAsking("delete") });
  return (
    <header class="session-head">
      <Button class="to-list" label="Back to sessions" icon="back" kind="quiet" bare onClick={() => go("/app")} />
      <div class="session-title">
        <h1 dir="auto" title={oneLine(title, 400)}>{oneLine(title)}</h1>
        <p title={oneLine(cwd, 400)}>
          <span class="mono">{oneLine(cwd, 200)}</span>
          {watchers > 1 && <span>{watchers} watching</span>}
          {cost > 0 && <span>{money(cost)}</span>}
        </p>
      </div>
      <Button label="Changes" icon="changes" kind="quiet" bare onClick={() => go(`/app/s/${live.id}/changes`)} />
      <Forks session={live.id} />
      {context > 0 && <Filled context={context} window={window} />}
      <Menu label="Session menu" icon="more" bare items={items} />
      {asking === "rename" && <Rename live={live} title={title} onClose={() => setAsking("")} />}
      {asking === "share" && <ShareDialog live={live} onClose={() => setAsking("")} />}
      {asking === "delete" && (
        <Confirm
          title="Delete this session?"
          text="This deletes the session's log for all users. The agent's transcript file is kept."
          action="Delete"
          onDone={(yes) => {
            setAsking("");
            if (!yes) return;
            live
              .command("delete")
              .then(() => {
                done("Session deleted")();
                go("/app");
              })
              .catch(toastError);
          }}
        />
      )}
    </header>
  );
}

/** Links to the parent session and to the forks of this one. */
function Forks({ session }: { session: string }) {
  const { parent, forks } = relatives(session, summaries.value);
  if (!parent && !forks.length) return null;
  const entry = (one: Summary, about: string): MenuItem => ({
    label: titleOf(one),
    about,
    icon: "fork",
    onChoose: () => go(`/app/s/${one.session}`),
  });
  const items = [...(parent ? [entry(parent, "Parent session")] : []), ...forks.map((one) => entry(one, "Fork"))];
  return <Menu label="Forks" icon="fork" bare items={items} />;
}

function Filled({ context, window }: { context: number; window: number }) {
  const share = window ? Math.min(1, context / window) : 0;
  const label = window
    ? `${amount(context)} of ${amount(window)} tokens, ${Math.round(share * 100)} % of the context`
    : `${amount(context)} tokens in the context`;
  return (
    <span class={share > 0.8 ? "filled much" : "filled"} title={label}>
      {window > 0 && <meter min={0} max={1} value={share} aria-label="Context used" />}
      <span>{window ? `${Math.round(share * 100)} %` : `${amount(context)} tokens`}</span>
    </span>
  );
}

function Rename({ live, title, onClose }: { live: LiveSession; title: string; onClose: () => void }) {
  const [name, setName] = useState(title);
  const rename = (event: Event) => {
    event.preventDefault();
    live.command("rename", { title: name.trim() }).then(() => void refresh(), toastError);
    onClose();
  };
  return (
    <Dialog title="Rename session" onClose={onClose}>
      <form class="stack" onSubmit={rename}>
        <Field label="Name">
          <input class="input" value={name} maxLength={200} onInput={(event) => setName(event.currentTarget.value)} />
        </Field>
        <div class="actions">
          <Button label="Cancel" onClick={onClose} />
          <Button label="Rename" kind="primary" type="submit" disabled={!name.trim()} />
        </div>
      </form>
    </Dialog>
  );
}

/** Uses a signed link that is valid for five minutes, so that the device's key is never in a URL. */
async function save(session: string, format: "html" | "jsonl"): Promise<void> {
  try {
    const path = `/v1/sessions/${session}/export?format=${format}`;
    const { url } = await rest.post<{ url: string }>("/v1/downloads", { path });
    const link = document.createElement("a");
    const target = new URL(url, location.href);
    link.href = target.pathname + target.search;
    link.download = `${session}.${format}`;
    link.click();
  } catch (error) {
    toastError(error);
  }
}
