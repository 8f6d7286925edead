// Staging everything and committing what is staged.

import { useState } from "preact/hooks";
import type { Review } from "../../live/review";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import type { GitState } from "../../state/review";

/** The gateway takes at most this many files at once. */
const AT_ONCE = 1000;

export function CommitBar({ review, git }: { review: Review; git: GitState }) {
  const [message, setMessage] = useState("");
  const staged = git.staged ?? 0;
  const rest = review.files.value.filter((file) => file.unstaged || file.untracked);
  if (!staged && !rest.length) return null;
  const stageAll = async () => {
    const keys = rest.flatMap((file) => [file.key, ...(file.status === "renamed" && file.old_key ? [file.old_key] : [])]);
    for (let start = 0; start < keys.length; start += AT_ONCE) if (!(await review.stage(keys.slice(start, start + AT_ONCE), true))) return;
  };
  const commit = async (event: Event) => {
    event.preventDefault();
    if (await review.commit(message)) setMessage("");
  };
  return (
    <form class="review-commit" onSubmit={(event) => void commit(event)}>
      {rest.length > 0 && (
        <Button
          label={rest.length === 1 ? "Stage 1 file" : `Stage ${rest.length} files`}
          busy={review.busy.value}
          disabled={!review.complete.value}
          onClick={() => void stageAll()}
        />
      )}
      {staged > 0 && (
        <>
          <Field label={`Commit ${staged === 1 ? "1 staged file" : `${staged} staged files`}`}>
            <textarea class="input" rows={2} placeholder="Message" value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
          </Field>
          <Button label="Commit" kind="primary" type="submit" busy={review.busy.value} disabled={!message.trim() || git.merging === true} />
        </>
      )}
    </form>
  );
}
