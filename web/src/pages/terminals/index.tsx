// Terminals: the user's own, those that others share, and the terminal of a session's agent.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { refresh as refreshSessions, summaries } from "../../live/sessions";
import { Button } from "../../parts/button";
import { Confirm, Dialog } from "../../parts/dialog";
import { Field, Switch } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Terminal, type TerminalLine, type TerminalState } from "../../parts/terminal";
import { toastError } from "../../parts/toast";
import { Link, go, params as asked } from "../../router";
import { oneLine } from "../../state/text";
import { me } from "../../wire/login";
import { query, rest } from "../../wire/rest";
import "../../style/panel.css";

interface Shell {
  name: string;
  owner: string;
  shared: boolean;
  watched: boolean;
  idle_s: number;
}

/** The shown terminal: by owner and name, or by session. */
interface Chosen {
  session?: string;
  owner?: string;
  name: string;
  /** The folder in which it starts, if it does not run yet. */
  cwd?: string;
}

const shells = signal<Shell[] | null>(null);
const watching = signal(false);
const screenReader = signal(localStorage.getItem("fairlead.reader") === "on");

async function refresh(): Promise<void> {
  try {
    shells.value = (await rest.get<{ terminals: Shell[] }>("/v1/terminals")).terminals;
  } catch (error) {
    toastError(error);
  }
}

export default function Terminals({ params }: { params: Record<string, string> }) {
  const [making, setMaking] = useState(false);
  useEffect(() => {
    void refresh();
  }, []);
  const { session, owner, name } = params;
  const cwd = asked.value.get("cwd") ?? "";
  const own = { ...(owner ? { owner } : {}), ...(cwd ? { cwd } : {}) };
  const chosen: Chosen | null = session ? { session, name: "agent" } : name ? { ...own, name } : null;
  return (
    <main class="terminals">
      <div class="terminals-bar">
        <h1>Terminals</h1>
        <Button label="New terminal" icon="plus" onClick={() => setMaking(true)} />
      </div>
      <Tabs chosen={chosen} />
      {chosen ? (
        <Shown key={`${chosen.session ?? ""}/${chosen.owner ?? ""}/${chosen.name}/${watching.value}`} chosen={chosen} />
      ) : (
        <div class="empty">
          <Icon name="terminal" size={28} />
          <p>{shells.value?.length ? "Choose a terminal or open a new one." : "No terminals are running."}</p>
        </div>
      )}
      {making && <Making onDone={() => setMaking(false)} />}
    </main>
  );
}

function Tabs({ chosen }: { chosen: Chosen | null }) {
  const all = shells.value ?? [];
  const mine = me.value?.user ?? "";
  const named = chosen && !chosen.session && !chosen.owner && !all.some((one) => one.owner === mine && one.name === chosen.name);
  const shown = named ? [...all, { name: chosen.name, owner: mine, shared: false, watched: true, idle_s: 0 }] : all;
  return (
    <nav class="terminals-tabs" aria-label="Terminals">
      {shown.map((one) => {
        const own = one.owner === mine;
        const here = !chosen?.session && chosen?.name === one.name && (chosen.owner ?? mine) === one.owner;
        const to = own ? `/app/terminals/${one.name}` : `/app/terminals/of/${encodeURIComponent(one.owner)}/${one.name}`;
        return (
          <Link key={to} to={to} aria-current={here ? "page" : undefined}>
            {one.shared && <Icon name="people" />}
            {oneLine(own ? one.name : `${one.owner}: ${one.name}`, 60)}
            {one.shared && <span class="hidden-visually"> (shared)</span>}
          </Link>
        );
      })}
      {chosen?.session && (
        <Link to={`/app/terminals/session/${chosen.session}`} aria-current="page">
          Session
        </Link>
      )}
    </nav>
  );
}

const STATES: Record<TerminalState, string> = {
  connecting: "Connecting",
  live: "",
  offline: "Offline, reconnecting",
  ended: "Terminal ended",
};

function Shown({ chosen }: { chosen: Chosen }) {
  const [state, setState] = useState<TerminalState>("connecting");
  const [detail, setDetail] = useState("");
  const [title, setTitle] = useState("");
  const [line, setLine] = useState<TerminalLine | null>(null);
  const [ending, setEnding] = useState(false);
  const own = !chosen.owner && !chosen.session;
  const readOnly = Boolean(chosen.owner) || watching.value;
  const shell = own ? shells.value?.find((one) => one.name === chosen.name && one.owner === me.value?.user) : undefined;
  const share = async (shared: boolean) => {
    try {
      await rest.patch(`/v1/terminals/${encodeURIComponent(chosen.name)}`, { shared });
    } catch (error) {
      toastError(error);
    }
    await refresh();
  };
  const end = async () => {
    try {
      await rest.delete(`/v1/terminals/${encodeURIComponent(chosen.name)}`);
    } catch (error) {
      toastError(error);
    }
    await refresh();
  };
  return (
    <>
      <div class="terminal-place">
        <Terminal
          open={() => socketOf(chosen, readOnly)}
          name={chosen.name}
          readOnly={readOnly}
          screenReader={screenReader.value}
          onTitle={setTitle}
          onState={(next, text) => {
            setState(next);
            if (text || next === "live") setDetail(text);
            if (next === "live" && own && !shell) void refresh();
          }}
          line={setLine}
        />
      </div>
      <div class="terminals-foot">
        <div class="terminal-keys" role="group" aria-label="Keys">
          {KEYS.map(([label, keys]) => (
            <Button key={label} label={label} disabled={readOnly} onClick={() => line?.type(keys)} />
          ))}
        </div>
        <div class="terminals-bar foot">
          <span role="status" class="terminal-state">
            {state === "live" ? oneLine(title, 80) : STATES[state]}
            {detail && state !== "live" && `: ${oneLine(detail, 200)}`}
          </span>
          {state === "ended" && own && <Button label="Restart" icon="refresh" onClick={() => location.reload()} />}
          {!chosen.owner && (
            <Switch
              label="Watch only"
              checked={watching.value}
              onChange={(on) => {
                watching.value = on;
              }}
            />
          )}
          <Switch
            label="Screen reader mode"
            checked={screenReader.value}
            onChange={(on) => {
              screenReader.value = on;
              localStorage.setItem("fairlead.reader", on ? "on" : "off");
            }}
          />
          {own && (
            <Switch
              label="Shared (others can watch)"
              checked={shell?.shared ?? false}
              disabled={!shell}
              onChange={(on) => void share(on)}
            />
          )}
          {own && <Button label="End terminal…" kind="danger" disabled={!shell} onClick={() => setEnding(true)} />}
        </div>
      </div>
      {ending && (
        <Confirm
          title={`End ${chosen.name}?`}
          text="This ends the terminal and all programs running in it."
          action="End terminal"
          onDone={(yes) => {
            setEnding(false);
            if (yes) void end();
          }}
        />
      )}
    </>
  );
}

const KEYS: [string, string][] = [
  ["Esc", "\x1b"],
  ["Tab", "\t"],
  ["Ctrl C", "\x03"],
  ["Ctrl D", "\x04"],
  ["↑", "\x1b[A"],
  ["↓", "\x1b[B"],
  ["←", "\x1b[D"],
  ["→", "\x1b[C"],
];

async function socketOf(chosen: Chosen, readOnly: boolean): Promise<WebSocket> {
  const { ticket } = await rest.post<{ ticket: string }>("/v1/tickets");
  const path = chosen.session
    ? `/v1/sessions/${encodeURIComponent(chosen.session)}/terminal`
    : `/v1/terminals/${encodeURIComponent(chosen.name)}`;
  const asked = chosen.session ? {} : { owner: chosen.owner, watch: readOnly || undefined, cwd: chosen.cwd };
  const url = new URL(`${path}${query({ ...asked, ticket })}`, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url);
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

function Making({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState(freeName());
  const [cwd, setCwd] = useState("");
  useEffect(() => void refreshSessions(), []);
  const wrong = NAME.test(name) ? "" : "Use letters, digits, dots, dashes and underscores, at most 64 characters.";
  return (
    <Dialog title="New terminal" onClose={onDone}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (wrong) return;
          onDone();
          watching.value = false;
          go(`/app/terminals/${name}${query({ cwd: cwd.trim() })}`);
        }}
      >
        <Field label="Name" hint="If a terminal with this name is running, it is opened." {...(wrong ? { wrong } : {})}>
          <input
            class="input"
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field label="Folder" hint="Where a new terminal starts. Empty: the gateway's first root.">
          <input
            class="input mono"
            type="text"
            list="terminal-folders"
            autocomplete="off"
            spellcheck={false}
            value={cwd}
            onInput={(event) => setCwd(event.currentTarget.value)}
          />
        </Field>
        <datalist id="terminal-folders">
          {[...new Set(summaries.value.map((one) => one.cwd))].slice(0, 30).map((folder) => (
            <option key={folder} value={folder} />
          ))}
        </datalist>
        <div class="actions">
          <Button label="Open" kind="primary" type="submit" disabled={Boolean(wrong)} />
        </div>
      </form>
    </Dialog>
  );
}

function freeName(): string {
  const taken = new Set((shells.value ?? []).map((one) => one.name));
  for (let number = 1; ; number++) {
    const name = number === 1 ? "main" : `main-${number}`;
    if (!taken.has(name)) return name;
  }
}
