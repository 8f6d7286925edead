// The comments that wait to be sent: all in one message.

import { useState } from "preact/hooks";
import type { Review } from "../../live/review";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { type Comment, placeOf } from "../../state/review";
import { oneLine, plain } from "../../state/text";
import { CommentForm } from "./diff";

export function Comments({ review, onClose }: { review: Review; onClose: () => void }) {
  const [changing, setChanging] = useState<Comment | null>(null);
  const comments = review.comments.value;
  if (changing)
    return (
      <CommentForm
        place={placeOf(changing)}
        text={changing.text}
        onClose={() => setChanging(null)}
        onKeep={(text) => {
          review.keepComments(comments.map((one) => (one.id === changing.id ? { ...one, text } : one)));
          setChanging(null);
        }}
      />
    );
  return (
    <Dialog title="Comments" onClose={onClose} wide>
      <div class="stack">
        {comments.length === 0 && <p class="soft">No comments yet. Select lines of a diff, then choose Comment.</p>}
        <ul class="review-comments">
          {comments.map((one) => (
            <li key={one.id}>
              <button
                type="button"
                class="review-place-link mono"
                onClick={() => {
                  review.openFile(one.key);
                  onClose();
                }}
              >
                {oneLine(placeOf(one), 200)}
              </button>
              <p>{plain(one.text)}</p>
              <span class="review-acts">
                <Button label="Edit" icon="edit" kind="quiet" bare onClick={() => setChanging(one)} />
                <Button
                  label="Delete"
                  icon="trash"
                  kind="quiet"
                  bare
                  onClick={() => review.keepComments(comments.filter((other) => other.id !== one.id))}
                />
              </span>
            </li>
          ))}
        </ul>
        <div class="actions">
          <Button label="Close" onClick={onClose} />
          <Button
            label={comments.length > 1 ? `Send ${comments.length} comments` : "Send comment"}
            icon="send"
            kind="primary"
            disabled={!comments.length}
            busy={review.busy.value}
            onClick={() => void review.sendComments().then((sent) => sent && onClose())}
          />
        </div>
      </div>
    </Dialog>
  );
}
