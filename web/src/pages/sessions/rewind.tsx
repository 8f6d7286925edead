// Restores files to their state before a message, after showing what would change.

import { useEffect, useState } from "preact/hooks";
import type { LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { toast } from "../../parts/toast";
import { plain, shortPath } from "../../state/text";
import type { WireError } from "../../wire/rest";

interface Preview {
  canRewind?: boolean;
  error?: string;
  filesChanged?: string[];
  insertions?: number;
  deletions?: number;
}

export function Rewind({ live, message, onClose }: { live: LiveSession; message: string; onClose: () => void }) {
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    live.command("rewind", { message, dry_run: true }).then(
      (reply) => setPreview((reply.data as Preview | null) ?? {}),
      (failure: WireError) => setError(failure.message),
    );
  }, []);
  const files = preview?.filesChanged ?? [];
  const cannot = error || preview?.error || (preview?.canRewind === false ? "The agent has no backup from before this message." : "");
  const rewind = () => {
    setBusy(true);
    live.command("rewind", { message }).then(
      () => {
        toast("Files restored");
        onClose();
      },
      (failure: WireError) => {
        setBusy(false);
        setError(failure.message);
      },
    );
  };
  return (
    <Dialog title="Restore files" onClose={onClose}>
      {!preview && !error && <p aria-busy="true">Checking what would change…</p>}
      {cannot && (
        <p class="banner" role="alert">
          {plain(cannot)}
        </p>
      )}
      {preview && !cannot && (
        <>
          <p>
            {files.length
              ? `${files.length} file${files.length === 1 ? "" : "s"} would be restored to their state before this message` +
                (preview.insertions === undefined
                  ? "."
                  : ` (${preview.insertions} lines added, ${preview.deletions ?? 0} removed).`)
              : "No file has changed since this message."}
          </p>
          <ul class="files mono">
            {files.map((file) => (
              <li key={file}>{shortPath(file, live.facts.value.cwd)}</li>
            ))}
          </ul>
          <p class="quiet">The conversation stays as it is. Only files that the agent changed are restored.</p>
        </>
      )}
      <div class="actions">
        <Button label="Cancel" onClick={onClose} />
        <Button
          label="Restore"
          kind="danger"
          busy={busy}
          disabled={!preview || Boolean(cannot) || !files.length}
          onClick={rewind}
        />
      </div>
    </Dialog>
  );
}
