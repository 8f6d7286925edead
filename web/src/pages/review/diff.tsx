// The diff of one file: rows can be selected with the keyboard, a mouse or a finger, and commented on.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { OpenDiff, Review } from "../../live/review";
import { Button } from "../../parts/button";
import { Confirm, Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Virtual } from "../../parts/virtual";
import { type ChangedFile, type DiffPair, type DiffRow, linesOf, noteOf, placeOf } from "../../state/review";
import { oneLine, plain } from "../../state/text";
import { may } from "../../wire/login";
import { Counts } from "./files";
import "../../style/diff.css";

const ROW = 22;

export function FilePane({ review }: { review: Review }) {
  const file = review.file.value;
  const diff = review.diff.value;
  if (!file || !diff)
    return (
      <section class="review-pane empty" aria-label="Diff">
        <p>{review.files.value.length ? "Choose a file." : ""}</p>
      </section>
    );
  return (
    <section class="review-pane" aria-label={`Changes to ${oneLine(file.path, 200)}`}>
      <FileHead review={review} file={file} />
      <DiffRows key={`${diff.file.key} ${diff.two}`} review={review} diff={diff} />
    </section>
  );
}

function FileHead({ review, file }: { review: Review; file: ChangedFile }) {
  const [asking, setAsking] = useState(false);
  const git = review.list.value?.git;
  const open = file.staged || file.unstaged || file.untracked;
  const busy = review.busy.value;
  const keys = [file.key, ...(file.status === "renamed" && file.old_key ? [file.old_key] : [])];
  return (
    <header class="review-file-head">
      <Button class="to-files" label="Back to the files" icon="back" kind="quiet" bare onClick={() => review.openFile("")} />
      <h2 title={oneLine(file.path, 400)}>
        {file.old_path && <span class="soft">{oneLine(file.old_path, 200)} → </span>}
        {oneLine(file.path, 200)}
      </h2>
      <Counts file={file} />
      {file.executable != null && <span class="soft">{file.executable ? "now executable" : "no longer executable"}</span>}
      <span class="review-acts">
        {review.list.value?.source === "git" && (
          <Button
            label="Whole file"
            icon="file"
            kind="quiet"
            bare
            pressed={review.whole.value}
            onClick={() => review.setWhole(!review.whole.value)}
          />
        )}
        <Button
          label="Side by side"
          icon="columns"
          kind="quiet"
          bare
          pressed={review.two.value}
          onClick={() => review.setColumns(!review.two.value)}
        />
        {git && open && may("approve") && (
          <>
            {file.unstaged || file.untracked ? (
              <Button label="Stage" kind="quiet" busy={busy} onClick={() => void review.stage(keys, true)} />
            ) : (
              <Button label="Unstage" kind="quiet" busy={busy} onClick={() => void review.stage(keys, false)} />
            )}
            <Button label="Discard…" kind="quiet" busy={busy} onClick={() => setAsking(true)} />
          </>
        )}
      </span>
      {asking && (
        <Confirm
          title="Discard this change?"
          text={`${oneLine(file.path, 200)} becomes as it is in the last commit; a file that is not in it is deleted. You can undo this right afterwards.`}
          action="Discard"
          onDone={(yes) => {
            setAsking(false);
            if (yes) void review.discard(keys);
          }}
        />
      )}
    </header>
  );
}

interface Selection {
  from: number;
  to: number;
}

function DiffRows({ review, diff }: { review: Review; diff: OpenDiff }) {
  const [cursor, setCursor] = useState(-1);
  const [selected, setSelected] = useState<Selection | null>(null);
  const [commenting, setCommenting] = useState(false);
  const box = useRef<HTMLElement | null>(null);
  const need = useCallback((first: number, last: number) => diff.need(first, last), [diff]);
  const about = diff.about.value;
  const rows = diff.rows.value;
  const commented = useMemo(() => {
    const lines = new Set<string>();
    for (const one of review.comments.value)
      if (one.key === diff.file.key) for (let line = one.from; line <= one.to; line++) lines.add(`${one.old ? "-" : "+"}${line}`);
    return lines;
  }, [review.comments.value, diff]);
  useEffect(() => {
    setCursor(-1);
    setSelected(null);
  }, [diff]);
  if (diff.error.value)
    return (
      <p class="banner" role="alert">
        {diff.error.value}
      </p>
    );
  if (!about) return <div class="review-rows" aria-busy="true" />;
  const note = noteOf(about);
  if (!about.total) return <p class="review-none">{note || "No lines to show."}</p>;

  const low = selected ? Math.min(selected.from, selected.to) : -1;
  const high = selected ? Math.max(selected.from, selected.to) : -2;
  const move = (by: number, extend: boolean) => {
    const next = Math.max(0, Math.min(about.total - 1, cursor + by));
    setCursor(next);
    setSelected(extend ? { from: selected?.from ?? Math.max(cursor, 0), to: next } : { from: next, to: next });
  };
  const keys = (event: KeyboardEvent) => {
    const page = 20;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -about.total, End: about.total };
    const by = steps[event.key];
    if (by !== undefined) move(by, event.shiftKey);
    else if ((event.key === "c" || event.key === "Enter") && selected && may("chat")) setCommenting(true);
    else if (event.key === "Escape" && selected) setSelected(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (index: number, event: MouseEvent) => {
    // A second tap with a finger extends the selection, as a click with Shift does.
    const extend = selected !== null && (event.shiftKey || (event as PointerEvent).pointerType === "touch");
    setCursor(index);
    setSelected(extend ? { from: selected.from, to: index } : { from: index, to: index });
    box.current?.focus();
  };
  const chosen = () => {
    const found: DiffRow[] = [];
    for (let index = low; index <= high; index++) {
      const row = rows.get(index);
      if (!row) continue;
      if (!diff.two) found.push(row as DiffRow);
      else {
        const [left, right] = row as DiffPair;
        if (left && (left[0] === "-" || !right)) found.push(left);
        if (right) found.push(right);
      }
    }
    return found.filter((row) => row[0] !== "@" && row[0] !== "\\");
  };
  const width = diff.two ? `calc(${2 * diff.longest.value}ch + 9rem)` : `calc(${diff.longest.value}ch + 8rem)`;
  return (
    <>
      <Virtual
        class={diff.two ? "review-rows two" : "review-rows"}
        count={about.total}
        height={ROW}
        width={width}
        at={cursor}
        onRange={need}
        frame={{
          role: "grid",
          tabIndex: 0,
          "aria-label": `Lines of ${oneLine(diff.file.path, 200)}`,
          "aria-rowcount": about.total,
          "aria-multiselectable": true,
          "aria-activedescendant": cursor >= 0 && rows.has(cursor) ? `row-${cursor}` : undefined,
          onKeyDown: keys,
          onFocus: (event: FocusEvent) => {
            box.current = event.currentTarget as HTMLElement;
          },
        }}
        row={(index) => (
          <Line
            key={index}
            index={index}
            row={rows.get(index)}
            two={diff.two}
            chosen={index >= low && index <= high}
            here={index === cursor}
            commented={commented}
            onChoose={choose}
          />
        )}
      />
      {selected && may("chat") && !commenting && (
        <div class="review-selected">
          <span>{placeOf({ path: diff.file.path.split("/").pop() ?? "", ...linesOf(chosen()) })}</span>
          <Button label="Comment" icon="edit" kind="primary" onClick={() => setCommenting(true)} />
          <Button label="Clear selection" icon="close" kind="quiet" bare onClick={() => setSelected(null)} />
        </div>
      )}
      {commenting && (
        <CommentForm
          place={placeOf({ path: diff.file.path, ...linesOf(chosen()) })}
          onClose={() => setCommenting(false)}
          onKeep={(text) => {
            const lines = chosen();
            const made = { id: crypto.randomUUID(), path: diff.file.path, key: diff.file.key, base: review.base.value };
            const quote = lines.map((row) => `${row[0]}${plain(row[3])}`);
            review.keepComments([...review.comments.value, { ...made, ...linesOf(lines), quote, text }]);
            setSelected(null);
            setCommenting(false);
          }}
        />
      )}
    </>
  );
}

interface LineProps {
  index: number;
  row: DiffRow | DiffPair | undefined;
  two: boolean;
  chosen: boolean;
  here: boolean;
  commented: Set<string>;
  onChoose: (index: number, event: MouseEvent) => void;
}

const KINDS: Record<string, string> = { "+": "add", "-": "del", "@": "hunk", "\\": "note" };

function Line({ index, row, two, chosen, here, commented, onChoose }: LineProps) {
  const classes = ["review-row", chosen ? "chosen" : "", here ? "here" : ""].filter(Boolean).join(" ");
  const sides: (DiffRow | null)[] = !row ? [] : two ? (row as DiffPair) : [row as DiffRow];
  const heading = sides[0]?.[0] === "@";
  return (
    <div
      id={`row-${index}`}
      role="row"
      class={heading ? `${classes} hunk` : classes}
      aria-rowindex={index + 1}
      aria-selected={chosen}
      onMouseDown={(event) => {
        // Shift extends our selection of rows, not the browser's selection of text.
        if (event.shiftKey) event.preventDefault();
      }}
      onClick={(event) => onChoose(index, event)}
    >
      {!row && <span role="gridcell" />}
      {heading ? (
        <span role="gridcell" class="review-hunk">
          {sides[0]![1]} → {sides[0]![2]} {plain(sides[0]![3])}
        </span>
      ) : (
        sides.map((side, place) => <Side key={place} side={side} two={two} left={place === 0} commented={commented} />)
      )}
    </div>
  );
}

function Side(props: { side: DiffRow | null; two: boolean; left: boolean; commented: Set<string> }) {
  const { side, two, left, commented } = props;
  if (!side) return <span role="gridcell" class="review-side-cell void" />;
  const [sign, before, after, text] = side;
  const marked = (after > 0 && commented.has(`+${after}`)) || (before > 0 && commented.has(`-${before}`));
  const line = two ? (left ? before : after) : 0;
  return (
    <span role="gridcell" class={`review-side-cell ${KINDS[sign] ?? "same"}${marked ? " commented" : ""}`}>
      {two ? (
        <span class="review-place">{line || ""}</span>
      ) : (
        <>
          <span class="review-place">{before || ""}</span>
          <span class="review-place">{after || ""}</span>
        </>
      )}
      <span class="diff-sign">{sign === "-" ? "−" : sign === "\\" ? "" : sign}</span>
      <span class="review-text">{plain(text)}</span>
      {marked && <span class="hidden-visually">, commented</span>}
    </span>
  );
}

export function CommentForm(props: { place: string; text?: string; onClose: () => void; onKeep: (text: string) => void }) {
  const [text, setText] = useState(props.text ?? "");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  const keep = (event: Event) => {
    event.preventDefault();
    if (text.trim()) props.onKeep(text.trim());
  };
  return (
    <Dialog title="Comment" onClose={props.onClose}>
      <form class="stack" onSubmit={keep}>
        <Field label={`About ${oneLine(props.place, 200)}`} hint="Comments are kept here until you send them all in one message.">
          <textarea
            ref={area}
            class="input"
            rows={4}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keep(event);
            }}
          />
        </Field>
        <div class="actions">
          <Button label="Cancel" onClick={props.onClose} />
          <Button label="Add comment" kind="primary" type="submit" disabled={!text.trim()} />
        </div>
      </form>
    </Dialog>
  );
}
