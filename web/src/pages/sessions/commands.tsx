// Completion of slash commands that the agent reported.

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

/** Names that match the typed text: first those that start with it, then those that contain it. */
export function matching(text: string, commands: string[]): string[] {
  const typed = /^\/([\w:.-]*)$/.exec(text)?.[1]?.toLowerCase();
  if (typed === undefined) return [];
  const begin = commands.filter((name) => name.toLowerCase().startsWith(typed));
  const inside = commands.filter((name) => !begin.includes(name) && name.toLowerCase().includes(typed));
  return [...begin, ...inside].slice(0, SHOWN);
}

export function Commands(props: { found: string[]; picked: number; onPick: (command: string) => void }) {
  return (
    <ul class="commands" id="commands" role="listbox" aria-label="Commands">
      {props.found.map((name, index) => (
        <li
          key={name}
          id={`command-${index}`}
          role="option"
          aria-selected={index === props.picked}
          onPointerDown={(event) => {
            event.preventDefault();
            props.onPick(name);
          }}
        >
          /{oneLine(name, 80)}
        </li>
      ))}
    </ul>
  );
}
