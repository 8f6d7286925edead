// The queued messages, in order. Each can be edited, moved or removed.

import type { LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { toastError } from "../../parts/toast";
import { oneLine, textOf } from "../../state/text";
import type { Block } from "../../wire/types";

export function Queue({ live, onEdit }: { live: LiveSession; onEdit: (message: string, content: Block[]) => void }) {
  const queue = live.queue.value;
  if (!queue.length) return null;
  const move = (message: string, position: number) =>
    void live.command("move_message", { message, position }).catch(toastError);
  return (
    <ol class="queue" aria-label="Queued messages">
      {queue.map((one, index) => {
        const text = oneLine(textOf(one.content), 120) || "Attachment";
        return (
          <li key={one.message}>
            <span class="queued" title={text}>
              {text}
            </span>
            {index > 0 && (
              <Button label={`Move up: ${text}`} icon="up" kind="quiet" bare onClick={() => move(one.message, index - 1)} />
            )}
            <Button label={`Edit: ${text}`} icon="edit" kind="quiet" bare onClick={() => onEdit(one.message, one.content)} />
            <Button
              label={`Remove: ${text}`}
              icon="close"
              kind="quiet"
              bare
              onClick={() => void live.command("cancel_message", { message: one.message }).catch(toastError)}
            />
          </li>
        );
      })}
    </ol>
  );
}
