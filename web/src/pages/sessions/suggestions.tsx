// Completion in the composer: slash commands that the agent reported, and files of the session's folder after @.

import { useEffect, useState } from "preact/hooks";
import { fileNames } from "../../live/files";
import { type Typed, completed, matches, typedAt } from "../../state/completion";
import { oneLine } from "../../state/text";

const SHOWN = 8;
const KEY = "fairlead.commands";

/** The commands that the agent reported in this session, else the last reported ones of any session. */
export function known(reported: string[]): string[] {
  if (reported.length) {
    localStorage.setItem(KEY, JSON.stringify(reported));
    return reported;
  }
  try {
    const last: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(last) ? last.filter((name): name is string => typeof name === "string") : [];
  } catch {
    return [];
  }
}

/** What can be completed before the caret, and which of it is picked. */
export function useSuggestions(session: string, text: string, caret: number, commands: string[]) {
  const [picked, pick] = useState(0);
  const [closed, setClosed] = useState("");
  const [files, setFiles] = useState<string[]>([]);
  const typed = typedAt(text, caret);
  const mentions = typed?.kind === "file";
  useEffect(() => {
    if (!mentions) return;
    let gone = false;
    fileNames(session).then(
      (names) => !gone && setFiles(names),
      // A folder that cannot be read has nothing to complete.
      () => !gone && setFiles([]),
    );
    return () => {
      gone = true;
    };
  }, [session, mentions]);
  useEffect(() => pick(0), [text]);
  const names = mentions ? files : commands;
  const found = typed === null || closed === text ? [] : matches(names, typed.text, SHOWN);
  return {
    found,
    picked: Math.min(picked, Math.max(0, found.length - 1)),
    pick,
    kind: typed?.kind ?? "command",
    typed: typed?.text ?? "",
    close: () => setClosed(text),
    complete: (chosen: string) => {
      const made = completed(text, typed as Typed, chosen);
      // A folder goes on with what is inside it.
      if (!chosen.endsWith("/")) setClosed(made.text);
      return made;
    },
  };
}

interface SuggestionsProps {
  kind: Typed["kind"];
  found: string[];
  picked: number;
  onPick: (chosen: string) => void;
}

export function Suggestions({ kind, found, picked, onPick }: SuggestionsProps) {
  return (
    <ul class="commands" id="suggestions" role="listbox" aria-label={kind === "file" ? "Files" : "Commands"}>
      {found.map((name, index) => (
        <li
          key={name}
          id={`suggestion-${index}`}
          role="option"
          aria-selected={index === picked}
          onPointerDown={(event) => {
            event.preventDefault();
            onPick(name);
          }}
        >
          {kind === "file" ? "@" : "/"}
          {oneLine(name, 80)}
        </li>
      ))}
    </ul>
  );
}
