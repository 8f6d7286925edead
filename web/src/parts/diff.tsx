// A change of a file, in one column, or in two if there is room. Everything is shown as text, never as markup.

import { signal } from "@preact/signals";
import { type Change, type Row, sides } from "../state/changes";
import { plain } from "../state/text";
import "../style/diff.css";
import { Button } from "./button";

const KEPT = "fairlead.diff";
const MOST = 4000;
const two = signal(localStorage.getItem(KEPT) === "two");

export function Diff({ change }: { change: Change }) {
  const name = plain(change.path) || "the file";
  if (!change.hunks.length) return <p class="diff-none">Nothing changes.</p>;
  const columns = two.value ? 4 : 3;
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
            {change.hunks.map((hunk, index) => (
              <>
                {index > 0 && (
                  <tr class="diff-skip">
                    <td colSpan={columns}>…</td>
                  </tr>
                )}
                {two.value
                  ? sides({ rows: hunk.rows.slice(0, MOST) }).map(({ left, right }, at) => (
                      <tr key={at}>
                        <Place at={left?.old} />
                        <Line row={left} />
                        <Place at={right?.new} />
                        <Line row={right} />
                      </tr>
                    ))
                  : hunk.rows.slice(0, MOST).map((row, at) => (
                      <tr key={at}>
                        <Place at={row.old} />
                        <Place at={row.new} />
                        <Line row={row} />
                      </tr>
                    ))}
                {hunk.rows.length > MOST && (
                  <tr class="diff-skip">
                    <td colSpan={columns}>{hunk.rows.length - MOST} more lines</td>
                  </tr>
                )}
              </>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
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
