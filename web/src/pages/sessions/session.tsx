// One session: header, conversation and composer.

import { useEffect, useMemo, useState } from "preact/hooks";
import { markSeen, summaries } from "../../live/sessions";
import { LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { toast, toastError } from "../../parts/toast";
import { go, params } from "../../router";
import type { UserItem } from "../../state/items";
import { advice } from "../../state/notes";
import { oneLine, textOf } from "../../state/text";
import { may } from "../../wire/login";
import { wire } from "../../wire/socket";
import type { Acts } from "../../cards/item";
import { Composer } from "./composer";
import { FindBar } from "./find";
import { Header } from "./header";
import { Rewind } from "./rewind";
import { Stream } from "./stream";

/** The first prompt stands for the title until there is one. The session's view is from before its first message. */
function firstPrompt(live: LiveSession): string {
  const known = live.view.value?.summary.first_prompt || summaries.value.find((one) => one.session === live.id)?.first_prompt;
  if (known) return oneLine(known, 120);
  if (live.before.value) return "";
  const first = [...live.items.value, ...live.sending.value].find((one) => one.kind === "user" && one.via !== "agent");
  return first?.kind === "user" ? oneLine(textOf(first.content), 120) : "";
}

export function Session({ id }: { id: string }) {
  const live = useMemo(() => new LiveSession(id), [id]);
  const [rewinding, setRewinding] = useState("");
  const [finding, setFinding] = useState(false);
  const at = Number(params.value.get("at")) || 0;
  const wanted = params.value.get("find") ?? "";

  useEffect(() => {
    void live.open(at || undefined);
    return () => live.close();
  }, [live]);

  useEffect(() => {
    // A search hit in the session that is already open.
    if (at && live.loaded.peek()) live.openAt(at).catch(toastError);
  }, [at]);

  const imported = live.view.value !== null;
  useEffect(() => {
    // A search hit in a transcript: once its log is there, the words are found in it.
    if (wanted && imported) setFinding(true);
  }, [wanted, imported]);

  const status = wire.status.value;
  useEffect(() => {
    // Opened while the gateway was unreachable: open again when it is back.
    if (status === "live" && live.error.peek()?.code === "offline") void live.open(at || undefined);
  }, [status]);

  const { items, facts } = live;
  const title = facts.value.title || firstPrompt(live) || "New session";
  useEffect(() => {
    document.title = `${oneLine(title)} · Fairlead`;
  }, [title]);
  useEffect(() => {
    if (document.visibilityState === "visible" && !live.after.value) markSeen(id, items.value.at(-1)?.at ?? 0);
  }, [items.value, summaries.value, id]);

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "f" && !finding) {
        // The browser finds only the loaded part. Pressed again, the key opens the browser's own search.
        event.preventDefault();
        setFinding(true);
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [finding]);

  const forks = live.can("fork");
  const rewinds = live.can("rewind");
  const acts = useMemo<Acts>(
    () => ({
      ...(forks && {
        fork: (message: string) =>
          void live
            .command("fork", { at: message })
            .then((reply) => {
              toast("Session forked. You are now in the new session.");
              go(`/app/s/${reply.session}`);
            })
            .catch(toastError),
      }),
      ...(rewinds && { rewind: setRewinding }),
      edit: (item: UserItem) => {
        live.draft.value = item.content;
      },
      again: (item: UserItem) => {
        live.forget(item.message);
        live.send(item.content, item.via === "steer").catch(toastError);
      },
      drop: (item: UserItem) => live.forget(item.message),
    }),
    [live, forks, rewinds],
  );

  const error = live.error.value;
  // A session that the user can no longer see is removed from the screen.
  const gone = error?.code === "not_found";
  if (error && (gone || !live.loaded.value))
    return (
      <main class="main-pane empty">
        <h1>This session cannot be shown</h1>
        <p>
          {gone ? "It was deleted, or it is not shared with you." : `${error.message} ${advice(error.code)}`}
        </p>
        <Button label="Try again" icon="refresh" onClick={() => void live.open()} />
        <Button label="Back to sessions" kind="quiet" onClick={() => go("/app")} />
      </main>
    );
  return (
    <main class="main-pane session">
      <Header live={live} title={title} onFind={() => setFinding(!finding)} />
      {finding && <FindBar live={live} words={wanted} onClose={() => setFinding(false)} />}
      <Stream live={live} acts={may("chat") ? acts : null} reveal={at} />
      {may("chat") ? <Composer live={live} /> : <p class="readonly">This device can view the session but not send messages.</p>}
      {rewinding && <Rewind live={live} message={rewinding} onClose={() => setRewinding("")} />}
    </main>
  );
}
