// The dialog for sharing a session: its owner, the users who can see it, and changes, each sent at once.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { onSessionChanges } from "../../live/session-changes";
import { type LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Field, Switch } from "../../parts/field";
import { oneLine, plain } from "../../state/text";
import { type Share, type Sharing, alreadySees, done, refused, sharingOf, withdrawals } from "../../state/sharing";
import { may, me } from "../../wire/login";
import { asWire, rest } from "../../wire/rest";
import type { SessionView } from "../../wire/types";
import "./share.css";

export function ShareDialog({ live, onClose }: { live: LiveSession; onClose: () => void }) {
  const [sharing, setSharing] = useState<Sharing | null>(null);
  const [name, setName] = useState("");
  const [wrong, setWrong] = useState("");
  const [error, setError] = useState("");
  const [status, setStatus] = useState("");
  const [users, setUsers] = useState<string[]>([]);
  const input = useRef<HTMLInputElement>(null);
  const asked = useRef(0);
  const suggested = useId();
  const listed = useId();

  const load = async () => {
    const turn = ++asked.current;
    try {
      const { summary } = await rest.get<SessionView>(`/v1/sessions/${live.id}`);
      if (turn === asked.current) setSharing(sharingOf(summary));
    } catch (failure) {
      if (turn === asked.current) setError(refused(asWire(failure)));
    }
  };
  useEffect(() => {
    void load();
    // Another user may change it meanwhile.
    const end = onSessionChanges((sessions) => {
      if (!sessions.length || sessions.includes(live.id)) void load();
    });
    // Only admins may see the list of users; others type a name that they know.
    if (may("admin"))
      rest.get<{ users: { name: string }[] }>("/v1/users").then(
        (found) => setUsers(found.users.map((user) => user.name)),
        () => undefined,
      );
    return () => {
      end();
      asked.current = -1;
    };
  }, []);
  useEffect(() => {
    if (sharing) input.current?.focus();
  }, [sharing !== null]);

  /** Returns whether all changes succeeded. */
  const change = async (changes: Share[], success: string, show: (message: string) => void): Promise<boolean> => {
    setError("");
    setWrong("");
    setStatus("Saving…");
    let failed = "";
    try {
      for (const one of changes) await live.command("share", { ...one });
    } catch (failure) {
      failed = refused(asWire(failure));
    }
    await load();
    setStatus(failed ? "" : success);
    if (failed) show(failed);
    return !failed;
  };
  const add = async (event: Event) => {
    event.preventDefault();
    const user = name.trim();
    if (!sharing || !user) return;
    const already = alreadySees(sharing, user);
    if (already) {
      setStatus("");
      setWrong(already);
    } else if (await change([{ user }], done({ user }), setWrong)) setName("");
    input.current?.focus();
  };
  /** The focused button disappears with the removed user, so the focus moves to the field. */
  const remove = async (changes: Share[], success: string) => {
    await change(changes, success, setError);
    input.current?.focus();
  };
  const everybody = (on: boolean) => {
    const wanted: Share = on ? { everybody: true } : { everybody: true, remove: true };
    void change([wanted], done(wanted), setError);
  };

  const known = new Set([sharing?.owner, ...(sharing?.users ?? [])]);
  return (
    <Dialog title="Share this session" onClose={onClose}>
      {error && (
        <p class="banner" role="alert">
          {plain(error)}
        </p>
      )}
      {!sharing && !error && <p aria-busy="true">Loading…</p>}
      {sharing && (
        <>
          <p>
            {sharing.owner ? (
              <>
                The owner is <strong>{oneLine(sharing.owner, 80)}</strong>
                {sharing.owner === me.value?.user && " (you)"}.
              </>
            ) : (
              "The owner was removed from this gateway."
            )}{" "}
            Users it is shared with can read it and send messages. Only the owner and admins can share or delete it.
          </p>
          <Switch label="Share with everybody on this gateway" checked={sharing.everybody} onChange={everybody} />
          <form class="with-button" onSubmit={(event) => void add(event)}>
            <Field label="Share with a user" {...(wrong ? { wrong: plain(wrong) } : {})}>
              <input
                ref={input}
                class="input"
                placeholder="User name"
                autocomplete="off"
                autocapitalize="none"
                spellcheck={false}
                maxLength={64}
                list={suggested}
                value={name}
                onInput={(event) => {
                  setName(event.currentTarget.value);
                  setWrong("");
                }}
              />
            </Field>
            <Button label="Add" kind="primary" type="submit" disabled={!name.trim()} />
          </form>
          <datalist id={suggested}>
            {users
              .filter((user) => !known.has(user))
              .map((user) => (
                <option key={user} value={user} />
              ))}
          </datalist>
          {sharing.users.length > 0 ? (
            <div class="field">
              <span class="label" id={listed}>
                Shared with
              </span>
              <ul class="shared-with" aria-labelledby={listed}>
                {sharing.users.map((user) => (
                  <li key={user}>
                    <span>{oneLine(user, 80)}</span>
                    <Button
                      label={`Stop sharing with ${oneLine(user, 80)}`}
                      icon="close"
                      kind="quiet"
                      bare
                      onClick={() => void remove([{ user, remove: true }], done({ user, remove: true }))}
                    />
                  </li>
                ))}
              </ul>
            </div>
          ) : (
            <p class="quiet">
              {sharing.everybody ? "Everybody on this gateway can see it." : "Not shared. Only the owner and admins can see it."}
            </p>
          )}
          <p class="quiet shared-status" role="status">
            {status}
          </p>
          <div class="actions">
            <Button
              label="Stop all sharing"
              kind="danger"
              disabled={!sharing.everybody && !sharing.users.length}
              onClick={() => void remove(withdrawals(sharing), "Sharing stopped.")}
            />
            <Button label="Done" onClick={onClose} />
          </div>
        </>
      )}
    </Dialog>
  );
}
