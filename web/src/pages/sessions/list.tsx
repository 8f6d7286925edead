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
import { Icon } from "../../parts/icon";
import { useKeys } from "../../parts/keys";
import { Menu } from "../../parts/menu";
import { toastError } from "../../parts/toast";
import { Time } from "../../parts/time";
import { Link, go } from "../../router";
import { rowFacts } from "../../state/row-facts";
import { lastPart, oneLine, plain } from "../../state/text";
import { branches, mainFolder } from "../../state/tree";
import { may } from "../../wire/login";
import { query } from "../../wire/rest";
import type { Hit, Summary } from "../../wire/types";

interface Group {
  cwd: string;
  sessions: Summary[];
}

/** The states that the list can be restricted to. */
const FILTERS = { all: "All", waiting: "Waiting for you", working: "Working", unread: "Unread" } as const;
type Filter = keyof typeof FILTERS;
const filter = signal<Filter>("all");

const FOLDED = "fairlead.folded";
/** Folders whose sessions are hidden, on this device. */
const folded = signal<Set<string>>(new Set(readFolded()));

function readFolded(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(FOLDED) ?? "[]");
    return Array.isArray(kept) ? kept.filter((name): name is string => typeof name === "string") : [];
  } catch {
    return [];
  }
}

function fold(cwd: string): void {
  const next = new Set(folded.value);
  if (!next.delete(cwd)) next.add(cwd);
  folded.value = next;
  localStorage.setItem(FOLDED, JSON.stringify([...next].slice(-500)));
}

const shownSummaries = computed(() =>
  filter.value === "all" ? summaries.value : summaries.value.filter((one) => stateOf(one).look === filter.value),
);

/** By folder, the most recently used first; inside, as the gateway orders them. */
const groups = computed<Group[]>(() => {
  const found = new Map<string, Summary[]>();
  for (const one of shownSummaries.value) {
    const folder = mainFolder(one.cwd);
    const list = found.get(folder);
    if (list) list.push(one);
    else found.set(folder, [one]);
  }
  return [...found].map(([cwd, sessions]) => ({ cwd, sessions }));
});

const words = signal("");
const hits = signal<Hit[] | null>(null);
const notSearched = signal(0);

/** `alone`: no session is open, so the list is the main content of the page. */
export function SessionList({ current, alone }: { current: string; alone: boolean }) {
  useEffect(() => void refresh(), []);
  useKeys("Sessions", [
    { keys: ["j"], about: "Next session in the list", run: () => step(1) },
    { keys: ["k"], about: "Previous session in the list", run: () => step(-1) },
  ]);
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
              ...Object.entries(FILTERS).map(([name, label]) => ({
                label: `Show: ${label}`,
                chosen: filter.value === name,
                onChoose: () => {
                  filter.value = name as Filter;
                },
              })),
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
    const found = (list: Hit[], left: number) => {
      hits.value = list;
      notSearched.value = left;
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

/** Moves the focus along the list, from the open session if none has it. */
function step(by: number): void {
  const all = [...document.querySelectorAll<HTMLElement>(".list-scroll a")];
  const here = all.indexOf(document.activeElement as HTMLElement);
  const open = all.findIndex((link) => link.getAttribute("aria-current") === "page");
  const at = here >= 0 ? here : open;
  all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
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
      {filter.value !== "all" && (
        <p class="list-note" role="status">
          Only: {FILTERS[filter.value].toLowerCase()}.{" "}
          <Button
            label="Show all"
            kind="quiet"
            onClick={() => {
              filter.value = "all";
            }}
          />
        </p>
      )}
      {groups.value.map((group) => (
        <div key={group.cwd} class="group" role="group" aria-label={oneLine(group.cwd, 400)}>
          <header title={oneLine(group.cwd, 400)}>
            <Heading>
              <button
                type="button"
                class="fold"
                aria-expanded={!folded.value.has(group.cwd)}
                onClick={() => fold(group.cwd)}
              >
                <Icon name={folded.value.has(group.cwd) ? "right" : "down"} />
                {lastPart(group.cwd) || "No folder"}
                {folded.value.has(group.cwd) && <span class="quiet"> {group.sessions.length}</span>}
              </button>
            </Heading>
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
          <ul hidden={folded.value.has(group.cwd)}>
            {(folded.value.has(group.cwd) ? [] : branches(group.sessions)).map(({ summary: one, depth }) => (
              <li key={one.session} class={depth ? `branch depth-${depth}` : undefined}>
                <Row summary={one} current={one.session === current} />
              </li>
            ))}
          </ul>
        </div>
      ))}
      {more.value && <Older rows={groups.value.reduce((sum, { cwd, sessions }) => sum + (folded.value.has(cwd) ? 0 : sessions.length), 0)} />}
    </div>
  );
}

/** Loads the next page when it comes into sight, as long as that adds rows: folders may be folded. */
function Older({ rows }: { rows: number }) {
  const place = useRef<HTMLParagraphElement>(null);
  const before = useRef(-1);
  useEffect(() => {
    if (before.current === rows) return;
    before.current = rows;
    const seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) loadMore().catch(toastError);
    });
    seen.observe(place.current!);
    return () => seen.disconnect();
  }, [more.value]);
  return (
    <p class="list-more" ref={place}>
      <Button label="Show older sessions" onClick={() => loadMore().catch(toastError)} />
    </p>
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
      <span class="name" dir="auto">{titleOf(summary)}</span>
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
        <NotSearched />
      </div>
    );
  return (
    <div onKeyDown={arrows}>
      <p class="hidden-visually" role="status">
        {found.length} results
      </p>
      <NotSearched />
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
        {found.map((hit, index) => (
          <li key={`${hit.session}:${hit.seq || index}`}>
            <Link to={hitPath(hit, words.value.trim())} class="hit">
              <span class="name" dir="auto">{oneLine(hit.title) || "Untitled"}</span>
              <Time at={hit.at} />
              <Snippet text={hit.snippet} />
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Sessions of Claude Code are indexed in the background; until that is done, some are not searched. */
function NotSearched() {
  const left = notSearched.value;
  if (!left) return null;
  return <p class="list-note">{left === 1 ? "1 session is" : `${left} sessions are`} not indexed yet and not searched.</p>;
}

/** A hit in a transcript that was never opened has no place in a log yet: its session is opened with the words to find. */
export function hitPath(hit: Pick<Hit, "session" | "seq">, words: string): string {
  return `/app/s/${hit.session}${query(hit.seq ? { at: hit.seq } : { find: words })}`;
}

/** The matched words are between \x02 and \x03. */
export function Snippet({ text }: { text: string }) {
  return (
    <span class="snippet" dir="auto">
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
