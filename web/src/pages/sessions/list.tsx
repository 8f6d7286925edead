// The list of sessions by project, with their live state, and the full-text search over all of them.

import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import {
  listError,
  listState,
  loadMore,
  more,
  refresh,
  setArchivedShown,
  showArchived,
  summaries,
  unread,
} from "../../live/sessions";
import { search } from "../../live/search";
import { Button } from "../../parts/button";
import { Menu } from "../../parts/menu";
import { toastError } from "../../parts/toast";
import { Time } from "../../parts/time";
import { Link, go } from "../../router";
import { rowFacts } from "../../state/row-facts";
import { lastPart, oneLine, plain } from "../../state/text";
import { branches } from "../../state/tree";
import { may } from "../../wire/login";
import { query } from "../../wire/rest";
import type { Hit, Summary } from "../../wire/types";

interface Group {
  cwd: string;
  sessions: Summary[];
}

/** By folder, the most recently used first; inside, as the gateway orders them. */
const groups = computed<Group[]>(() => {
  const found = new Map<string, Summary[]>();
  for (const one of summaries.value) {
    const list = found.get(one.cwd);
    if (list) list.push(one);
    else found.set(one.cwd, [one]);
  }
  return [...found].map(([cwd, sessions]) => ({ cwd, sessions }));
});

const words = signal("");
const hits = signal<Hit[] | null>(null);

/** `alone`: no session is open, so the list is the main content of the page. */
export function SessionList({ current, alone }: { current: string; alone: boolean }) {
  useEffect(() => void refresh(), []);
  const Heading = alone ? "h1" : "h2";
  const Frame = alone ? "main" : "aside";
  return (
    <Frame class="list-pane" aria-label="Sessions">
      <header class="list-head">
        <Heading>Sessions</Heading>
        <span>
          <Menu
            label="List options"
            icon="more"
            bare
            items={[
              { label: "Hide archived", chosen: !showArchived.value, onChoose: () => setArchivedShown(false) },
              { label: "Show archived", chosen: showArchived.value, onChoose: () => setArchivedShown(true) },
            ]}
          />
          {may("chat") && <Button label="New session" icon="plus" bare kind="primary" onClick={() => go("/app/new")} />}
        </span>
      </header>
      <Search />
      <div class="list-scroll">{words.value.trim() ? <Hits current={current} /> : <Groups current={current} alone={alone} />}</div>
    </Frame>
  );
}

function Search() {
  const end = useRef(() => {});
  const change = (text: string) => {
    words.value = text;
    end.current();
    const wanted = text.trim();
    if (!wanted) {
      hits.value = null;
      return;
    }
    const found = (list: Hit[]) => {
      hits.value = list;
    };
    const timer = setTimeout(() => {
      end.current = search(wanted, { limit: 60 }, found, toastError);
    }, 180);
    end.current = () => clearTimeout(timer);
  };
  return (
    <div class="search" role="search">
      <label class="hidden-visually" for="session-search">
        Search all sessions
      </label>
      <input
        id="session-search"
        class="input"
        type="search"
        placeholder="Search"
        autocomplete="off"
        value={words.value}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") change("");
          if (event.key === "ArrowDown") {
            event.preventDefault();
            document.querySelector<HTMLElement>(".list-scroll a")?.focus();
          }
        }}
      />
    </div>
  );
}

/** The arrow keys move the focus along the list. */
function arrows(event: KeyboardEvent): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const all = [...document.querySelectorAll<HTMLElement>(".list-scroll a")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const next = at + (event.key === "ArrowDown" ? 1 : -1);
  event.preventDefault();
  if (next < 0) document.getElementById("session-search")?.focus();
  else all[next]?.focus();
}

function Groups({ current, alone }: { current: string; alone: boolean }) {
  const Heading = alone ? "h2" : "h3";
  if (listState.value === "loading") return <div class="empty" aria-busy="true" />;
  if (listState.value === "failed")
    return (
      <div class="empty">
        <p>{listError.value}</p>
        <Button label="Try again" icon="refresh" onClick={() => void refresh()} />
      </div>
    );
  if (!summaries.value.length)
    return (
      <div class="empty">
        <p>No sessions yet.</p>
      </div>
    );
  return (
    <div onKeyDown={arrows}>
      {groups.value.map((group) => (
        <div key={group.cwd} class="group" role="group" aria-label={oneLine(group.cwd, 400)}>
          <header title={oneLine(group.cwd, 400)}>
            <Heading>{lastPart(group.cwd) || "No folder"}</Heading>
            {may("chat") && (
              <Button
                label={`New session in ${lastPart(group.cwd)}`}
                icon="plus"
                kind="quiet"
                bare
                onClick={() => go(`/app/new${query({ cwd: group.cwd })}`)}
              />
            )}
          </header>
          <ul>
            {branches(group.sessions).map(({ summary: one, depth }) => (
              <li key={one.session} class={depth ? `branch depth-${depth}` : undefined}>
                <Row summary={one} current={one.session === current} />
              </li>
            ))}
          </ul>
        </div>
      ))}
      {more.value && (
        <p class="list-more">
          <Button label="Show older sessions" onClick={() => loadMore().catch(toastError)} />
        </p>
      )}
    </div>
  );
}

export function titleOf(summary: Pick<Summary, "title" | "first_prompt">): string {
  return oneLine(summary.title || summary.first_prompt, 120) || "Untitled";
}

/** The label and the style of a session's state. */
export function stateOf(summary: Summary): { name: string; look: string } {
  if (summary.pending || summary.state === "waiting") return { name: "waiting for you", look: "waiting" };
  if (summary.state === "working") return { name: "working", look: "working" };
  if (summary.archived) return { name: "archived", look: "none" };
  if (unread(summary)) return { name: "unread", look: "unread" };
  if (summary.state === "transcript") return { name: "transcript", look: "none" };
  return { name: summary.state === "closed" ? "closed" : "idle", look: "idle" };
}

function Row({ summary, current }: { summary: Summary; current: boolean }) {
  const state = stateOf(summary);
  const facts = rowFacts(summary, state.look);
  return (
    <Link
      to={`/app/s/${summary.session}`}
      class={`session-row ${state.look}`}
      aria-current={current ? "page" : undefined}
      title={`${titleOf(summary)} (${state.name})`}
    >
      <span class={`dot ${state.look}`} />
      <span class="name">{titleOf(summary)}</span>
      <Time at={summary.updated} />
      <span class="facts">
        {facts.join(" · ")}
        {!facts.includes(state.name) && <span class={facts.length ? "hidden-visually" : undefined}> {state.name}</span>}
      </span>
    </Link>
  );
}

function Hits({ current }: { current: string }) {
  const found = hits.value;
  if (!found) return <div class="empty" aria-busy="true" />;
  const titles = summaries.value.filter((one) => titleOf(one).toLowerCase().includes(words.value.trim().toLowerCase()));
  if (!found.length && !titles.length)
    return (
      <div class="empty" role="status">
        <p>No results for “{words.value.trim()}”.</p>
      </div>
    );
  return (
    <div onKeyDown={arrows}>
      <p class="hidden-visually" role="status">
        {found.length} results
      </p>
      {titles.length > 0 && (
        <ul>
          {titles.slice(0, 8).map((one) => (
            <li key={one.session}>
              <Row summary={one} current={one.session === current} />
            </li>
          ))}
        </ul>
      )}
      <ul>
        {found.map((hit) => (
          <li key={`${hit.session}:${hit.seq}`}>
            <Link to={`/app/s/${hit.session}?at=${hit.seq}`} class="hit">
              <span class="name">{oneLine(hit.title) || "Untitled"}</span>
              <Time at={hit.at} />
              <Snippet text={hit.snippet} />
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The matched words are between \x02 and \x03. */
export function Snippet({ text }: { text: string }) {
  return (
    <span class="snippet">
      {text.split("\x02").map((part, index) => {
        if (!index) return plain(part);
        const [found = "", after = ""] = part.split("\x03");
        return (
          <span key={index}>
            <mark>{plain(found)}</mark>
            {plain(after)}
          </span>
        );
      })}
    </span>
  );
}
