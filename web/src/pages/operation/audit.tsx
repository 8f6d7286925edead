// Who did what: the audit log, newest first, with filters.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import { Time } from "../../parts/time";
import { type AuditEntry, detailsOf, whoOf } from "../../state/audit";
import { oneLine } from "../../state/text";
import { query, rest } from "../../wire/rest";

interface Page {
  entries: AuditEntry[];
  head: { n: number; hash: string };
  next: number | null;
}

const ACTIONS: [string, string][] = [
  ["", "Everything"],
  ["prompt", "Prompts"],
  ["permission.", "Permission answers"],
  ["session.", "Changes of sessions"],
  ["session.delete", "Deleted sessions"],
  ["sign_in", "Sign-ins"],
  ["token.", "New tokens"],
  ["credential.", "Revoked credentials"],
  ["user.", "Users"],
  ["shell.", "Terminals"],
  ["gateway.", "The gateway"],
];

export function Audit() {
  const [page, setPage] = useState<Page | null>(null);
  const [user, setUser] = useState("");
  const [session, setSession] = useState("");
  const [action, setAction] = useState("");
  const [error, setError] = useState("");
  const load = async (before: number | null) => {
    const wanted = { user: user.trim(), session: session.trim(), action, before, limit: 100 };
    try {
      const found = await rest.get<Page>(`/v1/audit${query(wanted)}`);
      setPage((shown) => (before && shown ? { ...found, entries: [...shown.entries, ...found.entries] } : found));
      setError("");
    } catch (caught) {
      setError(caught instanceof Error ? caught.message : String(caught));
    }
  };
  useEffect(() => void load(null), [action]);
  return (
    <section class="panel" aria-labelledby="audit">
      <h2 id="audit">Audit log</h2>
      <p class="soft">Who did what, newest first. It stays when sessions are deleted.</p>
      <form
        class="audit-filter"
        onSubmit={(event) => {
          event.preventDefault();
          void load(null);
        }}
      >
        <Field label="Show">
          <select class="input" value={action} onChange={(event) => setAction(event.currentTarget.value)}>
            {ACTIONS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </Field>
        <Field label="User">
          <input class="input" autocomplete="off" value={user} onInput={(event) => setUser(event.currentTarget.value)} />
        </Field>
        <Field label="Session id">
          <input
            class="input mono"
            autocomplete="off"
            value={session}
            onInput={(event) => setSession(event.currentTarget.value)}
          />
        </Field>
        <Button label="Apply" type="submit" />
      </form>
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      {page && !page.entries.length && <p class="soft">No entries match.</p>}
      {page && page.entries.length > 0 && (
        <div class="table-scroll" tabIndex={0} role="group" aria-label="Entries of the audit log">
          <table class="grid-table audit-table">
            <thead>
              <tr>
                {["Entry", "Time", "Who", "Action", "Session", "Details"].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {page.entries.map((entry) => (
                <tr key={entry.n}>
                  <th scope="row" class="number">
                    {entry.n}
                  </th>
                  <td>
                    <Time at={entry.at} />
                  </td>
                  <td>
                    {oneLine(whoOf(entry), 80)}
                    {entry.credential && <small>{oneLine(entry.credential, 40)}</small>}
                  </td>
                  <td>{oneLine(entry.action, 60)}</td>
                  <td>
                    <code>{oneLine(entry.session ?? "", 60).slice(0, 8)}</code>
                  </td>
                  <td class="details">{detailsOf(entry)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {page?.next && (
        <div class="actions">
          <Button label="Show older entries" onClick={() => void load(page.next)} />
        </div>
      )}
    </section>
  );
}
