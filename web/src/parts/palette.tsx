// The command palette (Ctrl+K): sessions, pages and actions by a few letters.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { summaries } from "../live/sessions";
import { PAGES } from "../pages";
import { go } from "../router";
import { matches } from "../state/completion";
import { lastPart, oneLine } from "../state/text";
import { may } from "../wire/login";
import { query, rest } from "../wire/rest";
import type { Summary } from "../wire/types";
import "../style/palette.css";
import { Dialog } from "./dialog";
import { helpShown } from "./keys";
import { toastError } from "./toast";

interface Choice {
  id: string;
  label: string;
  about: string;
  run: () => void;
}

export const paletteShown = signal(false);
const MOST = 12;

addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  // In a terminal the keys belong to its program.
  if (event.target instanceof HTMLElement && event.target.closest(".xterm")) return;
  if (document.querySelector("dialog[open]")) return;
  event.preventDefault();
  paletteShown.value = true;
});

function actions(): Choice[] {
  const pages = PAGES.filter((page) => page.nav && (!page.scope || may(page.scope))).map((page) => ({
    id: `page ${page.nav!.to}`,
    label: page.nav!.label,
    about: "Page",
    run: () => go(page.nav!.to),
  }));
  const help = {
    id: "help",
    label: "Keyboard shortcuts",
    about: "Help",
    run: () => {
      helpShown.value = true;
    },
  };
  const fresh = { id: "new", label: "New session", about: "Action", run: () => go("/app/new") };
  return [...(may("chat") ? [fresh] : []), ...pages, help];
}

function choiceOf(summary: Summary): Choice {
  const label = oneLine(summary.title || summary.first_prompt, 120) || "Untitled";
  return { id: summary.session, label, about: lastPart(summary.cwd), run: () => go(`/app/s/${summary.session}`) };
}

export function Palette() {
  return paletteShown.value ? <Open /> : null;
}

function Open() {
  const [words, setWords] = useState("");
  const [picked, setPicked] = useState(0);
  const [older, setOlder] = useState<Summary[]>([]);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  useEffect(() => setPicked(0), [words]);
  useEffect(() => {
    // Sessions that the list has not loaded: the gateway knows all of them.
    setOlder([]);
    if (!words.trim()) return;
    let gone = false;
    const timer = setTimeout(() => {
      rest
        .get<{ sessions: Summary[] }>(`/v1/sessions${query({ q: words.trim(), archived: "any", limit: MOST })}`)
        .then(({ sessions }) => !gone && setOlder(sessions), toastError);
    }, 150);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [words]);
  const known = new Map([...summaries.value, ...older].map((one) => [one.session, choiceOf(one)]));
  const all = [...known.values(), ...actions()];
  // The number keeps equal titles apart.
  const byText = new Map(all.map((one, index) => [`${one.label} ${one.about}\n${index}`, one]));
  const wanted = words.trim();
  const found = wanted
    ? matches([...byText.keys()], wanted, MOST).map((text) => byText.get(text)!)
    : [...actions(), ...known.values()].slice(0, MOST);
  const close = () => {
    paletteShown.value = false;
  };
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    choice.run();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (found.length) setPicked((picked + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[picked]);
    }
  };
  return (
    <Dialog title="Go to" onClose={close}>
      <div class="palette">
        <input
          ref={input}
          class="input"
          type="text"
          role="combobox"
          aria-label="Session, page or action"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found.length ? `palette-${picked}` : undefined}
          autocomplete="off"
          placeholder="Session, page or action"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
          onKeyDown={keys}
        />
        <ul id="palette-list" role="listbox" aria-label="Results">
          {found.map((choice, index) => (
            <li
              key={choice.id}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === picked}
              onPointerMove={() => setPicked(index)}
              onClick={() => choose(choice)}
            >
              <span dir="auto">{choice.label}</span>
              <span class="quiet">{choice.about}</span>
            </li>
          ))}
        </ul>
        {!found.length && (
          <p class="quiet" role="status">
            Nothing matches.
          </p>
        )}
      </div>
    </Dialog>
  );
}
