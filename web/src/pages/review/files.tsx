// The changed files, with a filter.

import type { Review } from "../../live/review";
import { Virtual } from "../../parts/virtual";
import { type ChangedFile, stateOf } from "../../state/review";
import { amount, oneLine } from "../../state/text";

const ROW = 44;
const SIGNS: Record<string, string> = {
  added: "A",
  deleted: "D",
  modified: "M",
  renamed: "R",
  copied: "C",
  retyped: "T",
  unmerged: "U",
};

export function FileList({ review }: { review: Review }) {
  const files = review.shown.value;
  const list = review.list.value;
  const at = files.findIndex((file) => file.key === review.current.value);
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    review.step(event.key === "ArrowDown" ? 1 : -1);
    requestAnimationFrame(() => document.querySelector<HTMLElement>(".review-file[aria-current]")?.focus());
  };
  return (
    <nav class="review-files" aria-label="Changed files">
      <div class="review-filter">
        <input
          id="review-filter"
          class="input"
          type="search"
          placeholder="Filter files"
          aria-label="Filter files"
          value={review.words.value}
          onInput={(event) => {
            review.words.value = event.currentTarget.value;
          }}
        />
        <span class="soft">{list ? (review.complete.value ? list.total : `${review.files.value.length} of ${list.total}`) : ""}</span>
      </div>
      {list && files.length === 0 && <p class="review-none">{review.words.value ? "No file matches." : "No changes."}</p>}
      <Virtual
        class="review-scroll"
        count={files.length}
        height={ROW}
        at={at}
        frame={{ role: "list", "aria-label": "Files", onKeyDown: keys, tabIndex: files.length ? undefined : -1 }}
        row={(index) => <Row key={files[index]!.key} review={review} file={files[index]!} index={index} of={files.length} />}
      />
    </nav>
  );
}

function Row({ review, file, index, of }: { review: Review; file: ChangedFile; index: number; of: number }) {
  const shown = oneLine(file.path, 400);
  const cut = shown.lastIndexOf("/") + 1;
  const state = review.list.value?.git ? stateOf(file) : "";
  const here = file.key === review.current.value;
  return (
    <div role="listitem" class="review-item" aria-setsize={of} aria-posinset={index + 1}>
      <button
        type="button"
        class="review-file"
        aria-current={here ? "true" : undefined}
        title={file.old_path ? `${oneLine(file.old_path, 400)} → ${shown}` : shown}
        onClick={() => review.openFile(file.key)}
      >
        <span class={`review-sign ${file.status}`} aria-hidden="true">
          {SIGNS[file.status] ?? "?"}
        </span>
        <span class="hidden-visually">{file.status}</span>
        <span class="review-name">
          <span>{shown.slice(cut)}</span>
          <small>{[shown.slice(0, cut).replace(/\/$/, ""), state].filter(Boolean).join(" · ")}</small>
        </span>
        <Counts file={file} />
      </button>
    </div>
  );
}

export function Counts({ file }: { file: ChangedFile }) {
  if (file.kind === "submodule") return <span class="soft">submodule</span>;
  if (file.kind === "large") return <span class="soft">large</span>;
  if (file.binary) return <span class="soft">binary</span>;
  return (
    <span class="diff-count">
      {Boolean(file.added) && <ins>+{amount(file.added!)}</ins>} {Boolean(file.removed) && <del>−{amount(file.removed!)}</del>}
    </span>
  );
}
