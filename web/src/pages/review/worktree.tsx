// The end of a worktree: merged, removed, or kept by doing nothing.

import { useState } from "preact/hooks";
import type { Review } from "../../live/review";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/dialog";
import { toastError } from "../../parts/toast";
import { go } from "../../router";
import { type GitState, type WorktreeState, lossOf } from "../../state/review";
import { lastPart, oneLine } from "../../state/text";

export function WorktreeBar({ review, git }: { review: Review; git: GitState }) {
  const [state, setState] = useState<WorktreeState | null>(null);
  const busy = review.busy.value;
  const ask = () => review.worktreeState().then(setState, toastError);
  return (
    <div class="review-worktree">
      <span>Worktree of {lastPart(git.worktree_of ?? "")}</span>
      <Button label="Merge" kind="quiet" busy={busy} title="Merge its branch into the one of the main folder" onClick={() => void review.mergeWorktree()} />
      <Button label="Remove worktree…" kind="quiet" busy={busy} onClick={() => void ask()} />
      {state && (
        <Confirm
          title={`Remove the worktree of ${oneLine(state.branch ?? "", 80) || "this session"}?`}
          text={`The folder ${oneLine(state.path, 200)} and the branch are deleted. ${lossOf(state)}`}
          action="Remove"
          onDone={(yes) => {
            const force = Boolean(state.uncommitted || state.unmerged);
            setState(null);
            if (yes) void review.removeWorktree(force).then((done) => done && go(`/app/s/${review.session}`));
          }}
        />
      )}
    </div>
  );
}
