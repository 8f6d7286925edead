// Completion of slash commands: those that the agent said it has.

import { oneLine } from "../../state/text";

const SHOWN = 8;

/** Names that go on from what is typed; the beginning counts more than the middle. */
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
