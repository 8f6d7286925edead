// A request inside a conversation: the card that answers it, and afterwards who decided.

import { Time } from "../parts/time";
import type { Ask } from "../state/items";
import { plain } from "../state/text";
import type { PermissionResolved } from "../wire/types";
import { Approval } from "./approval";

export function OpenRequest({ ask, session }: { ask: Ask; session: string }) {
  return <Approval session={session} event={ask.event} />;
}

export function Decided({ resolved }: { resolved: PermissionResolved }) {
  const allowed = resolved.behavior === "allow";
  // Calls that a rule or the mode allowed without a request are not worth a line.
  if (allowed && resolved.asked === false) return null;
  const who = resolved.by || resolved.rule || resolved.how;
  return (
    <p class={allowed ? "decided" : "decided bad"}>
      {allowed ? "Allowed" : "Denied"} by {plain(who)}
      {resolved.message && <>: {plain(resolved.message)}</>}
      {resolved.updated_input && <>, with changed input</>}
      {resolved.remembered?.length ? <>; rules saved: {plain(resolved.remembered.join(", "))}</> : null}{" "}
      <Time at={resolved.at ?? 0} />
    </p>
  );
}
