// A change of a file, in one column, or in two if there is room. Everything is shown as text, never as markup.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { type Change, type Hunk, type Row, sides } from "../state/changes";
import { plain } from "../state/text";
import "../style/diff.css";
import { Button } from "./button";

const KEPT = "fairlead.diff";
/** Rows that are shown first, and with each click: a row is several elements. */
const FIRST = 200;
const NEXT = 1000;
const two = signal(localStorage.getItem(KEPT) === "two");

export function Diff({ change }: { change: Change }) {
  const [most, setMost] = useState(FIRST);
  const name = plain(change.path) || "the file";
  if (!change.hunks.length) return <p class="diff-none">Nothing changes.</p>;
  const columns = two.value ? 4 : 3;
  const all = change.hunks.reduce((sum, hunk) => sum + hunk.rows.length, 0);
  const shown = firstRows(change.hunks, most);
  return (
    <figure class={two.value ? "diff two" : "diff"} aria-label={`Changes to ${name}`}>
      <figcaption>
        <span class="diff-count">
          <ins>+{change.added}</ins> <del>−{change.removed}</del>
        </span>
        <Button
          label={two.value ? "One column" : "Side by side"}
          icon="columns"
          kind="quiet"
          onClick={() => {
            two.value = !two.value;
            localStorage.setItem(KEPT, two.value ? "two" : "one");
          }}
        />
      </figcaption>
      <div class="diff-scroll" tabIndex={0} role="group" aria-label={`Lines of ${name}`}>
        <table>
          <tbody>
            {shown.map((hunk, index) => (
              <>
                {index > 0 && (
                  <tr class="diff-skip">
                    <td colSpan={columns}>…</td>
                  </tr>
                )}
                {two.value
                  ? sides(hunk).map(({ left, right }, at) => (
                      <tr key={at}>
                        <Place at={left?.old} />
                        <Line row={left} />
                        <Place at={right?.new} />
                        <Line row={right} />
                      </tr>
                    ))
                  : hunk.rows.map((row, at) => (
                      <tr key={at}>
                        <Place at={row.old} />
                        <Place at={row.new} />
                        <Line row={row} />
                      </tr>
                    ))}
              </>
            ))}
          </tbody>
        </table>
      </div>
      {all > most && (
        <button type="button" class="unfold" onClick={() => setMost(most + NEXT)}>
          Show {Math.min(NEXT, all - most)} more of {all} lines
        </button>
      )}
    </figure>
  );
}

/** The first rows of all hunks together. */
export function firstRows(hunks: Hunk[], most: number): Hunk[] {
  const shown: Hunk[] = [];
  let left = most;
  for (const hunk of hunks) {
    if (left <= 0) break;
    shown.push(hunk.rows.length > left ? { ...hunk, rows: hunk.rows.slice(0, left) } : hunk);
    left -= hunk.rows.length;
  }
  return shown;
}

function Place({ at }: { at: number | undefined }) {
  return <td class="diff-place">{at || ""}</td>;
}

const KINDS = { " ": "same", "+": "add", "-": "del" } as const;

function Line({ row }: { row: Row | null }) {
  if (!row) return <td class="diff-void" />;
  return (
    <td class={`diff-line ${KINDS[row.sign]}`}>
      <span class="diff-sign">{row.sign === "-" ? "−" : row.sign}</span>
      {plain(row.text)}
    </td>
  );
}
