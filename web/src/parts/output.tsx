// The output of a command as a terminal would show it at the end. Long output shows its last lines first.

import { useMemo, useState } from "preact/hooks";
import { screen } from "../state/ansi";

const SHOWN = 12;
const MOST = 2000;

export function Output({ text, label = "Output" }: { text: string; label?: string }) {
  const [all, setAll] = useState(false);
  const lines = useMemo(() => screen(text), [text]);
  const hidden = lines.length - (all ? MOST : SHOWN);
  const shown = hidden > 0 ? lines.slice(hidden) : lines;
  if (!lines.length) return null;
  return (
    <div class="output">
      {hidden > 0 && (
        <button type="button" class="unfold" onClick={() => setAll(true)} disabled={all}>
          {all ? `${hidden} earlier lines are not shown` : `Show ${hidden} earlier lines`}
        </button>
      )}
      <pre tabIndex={0} role="group" aria-label={label}>
        {shown.map((line, index) => (
          <span key={index} class="row">
            {line.map((run, place) =>
              run.look ? (
                <span key={place} class={run.look}>
                  {run.text}
                </span>
              ) : (
                run.text
              ),
            )}
            {"\n"}
          </span>
        ))}
      </pre>
    </div>
  );
}
