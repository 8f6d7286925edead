// The changes of a session: its files, the diff of one of them, comments for the agent, and git. On a phone the list or
// the diff.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Review } from "../../live/review";
import { summaries } from "../../live/sessions";
import type { PageProps } from "../../pages";
import { Button } from "../../parts/button";
import { useKeys } from "../../parts/keys";
import { Menu } from "../../parts/menu";
import { go } from "../../router";
import { type GitState, baseName } from "../../state/review";
import { oneLine } from "../../state/text";
import { may } from "../../wire/login";
import { Comments } from "./comments";
import { CommitBar } from "./commit";
import { FilePane } from "./diff";
import { FileList } from "./files";
import { WorktreeBar } from "./worktree";
import "./review.css";

export default function ReviewPage({ params }: PageProps) {
  const id = params["session"] ?? "";
  return <ReviewOf key={id} id={id} />;
}

function ReviewOf({ id }: { id: string }) {
  const review = useMemo(() => new Review(id), [id]);
  const [commenting, setCommenting] = useState(false);
  useEffect(() => void review.load(), [review]);
  useKeys("Changes", [
    { keys: ["j"], about: "Next file", run: () => review.step(1) },
    { keys: ["k"], about: "Previous file", run: () => review.step(-1) },
    { keys: ["v"], about: "One column or side by side", run: () => review.setColumns(!review.two.value) },
    { keys: ["r"], about: "Refresh", run: () => void review.load() },
    { keys: ["/"], about: "Filter files", run: () => document.getElementById("review-filter")?.focus() },
  ]);
  const summary = summaries.value.find((one) => one.session === id);
  const title = oneLine(summary?.title || summary?.first_prompt || "", 80);
  const list = review.list.value;
  const turns = list?.turns ?? [];
  const error = review.error.value;
  const chosen = review.base.value;
  const bases = [
    { label: "Since the session began", base: "session" },
    ...(list?.git ? [{ label: "Since the last commit", base: "commit" }] : []),
    ...turns.map((turn, index) => ({
      label: `Turn ${index + 1}`,
      about: oneLine(turn.prompt ?? "", 60) || (turn.running ? "Running" : turn.changed ? "" : "No changes"),
      base: turn.turn,
    })),
  ];
  const comments = review.comments.value.length;
  return (
    <main class={review.current.value ? "review opened" : "review"}>
      <header class="review-head">
        <Button class="of-list" label="Back to the session" icon="back" kind="quiet" bare onClick={() => go(`/app/s/${id}`)} />
        <div class="session-title">
          <h1>Changes</h1>
          <p title={title}>{title || "Session"}</p>
        </div>
        <Menu
          label={bases.find((one) => one.base === chosen)?.label ?? "Compare"}
          icon="clock"
          kind="plain"
          class="of-list"
          items={bases.map((one) => ({
            label: one.label,
            ...("about" in one && one.about ? { about: one.about } : {}),
            chosen: one.base === chosen,
            onChoose: () => review.compareWith(one.base),
          }))}
        />
        <Button class="of-list" label="Refresh" icon="refresh" kind="quiet" bare onClick={() => void review.load()} />
        {may("chat") && (
          <Button
            label={comments ? `Comments (${comments})` : "Comments"}
            icon="edit"
            kind={comments ? "primary" : "quiet"}
            onClick={() => setCommenting(true)}
          />
        )}
      </header>
      {list?.git && <Branch git={list.git} />}
      {list?.git?.worktree_of && may("approve") && <WorktreeBar review={review} git={list.git} />}
      {list?.source === "log" && (
        <p class="review-note">
          This folder is in no git repository: the list has what the agent's edit tools report, not what its commands changed.
        </p>
      )}
      {error && (
        <p class="banner" role="alert">
          {error.message}
        </p>
      )}
      <div class="review-body">
        <div class="review-side">
          <FileList review={review} />
          {list?.git && may("approve") && <CommitBar review={review} git={list.git} />}
        </div>
        <FilePane review={review} />
      </div>
      <p class="hidden-visually" role="status">
        {list ? `${list.total} changed files ${baseName(list.base, turns)}` : "Loading changes"}
      </p>
      {commenting && <Comments review={review} onClose={() => setCommenting(false)} />}
    </main>
  );
}

function Branch({ git }: { git: GitState }) {
  const ahead = [git.ahead ? `${git.ahead} ahead` : "", git.behind ? `${git.behind} behind` : ""].filter(Boolean).join(", ");
  return (
    <p class="review-branch">
      <span class="mono">{oneLine(git.branch || (git.head ?? "").slice(0, 9) || "no branch", 60)}</span>
      {!git.branch && git.head && <span>detached</span>}
      {git.upstream && (
        <span>
          {ahead || "up to date"} · {oneLine(git.upstream, 60)}
        </span>
      )}
      {git.subject && <span class="review-subject">{oneLine(git.subject, 100)}</span>}
      {git.merging && <strong>A merge or rebase is under way</strong>}
      {git.worktree_of && <span>worktree of {oneLine(git.worktree_of, 100)}</span>}
    </p>
  );
}
