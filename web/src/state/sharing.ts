// The owner of a session and the users it is shared with: the gateway's rules, as far as the UI needs them.

import type { Me, Summary } from "../wire/types";

/** The entry for all users in the list of names; no user can have this name. */
const EVERYBODY = "*";

export interface Sharing {
  /** Empty once that user was removed. */
  owner: string;
  everybody: boolean;
  users: string[];
}

/** The fields of a `share` command. */
export interface Share {
  user?: string;
  everybody?: true;
  remove?: true;
}

export function sharingOf({ owner, shared }: Pick<Summary, "owner" | "shared">): Sharing {
  return {
    owner,
    everybody: shared.includes(EVERYBODY),
    users: shared.filter((name) => name !== EVERYBODY).sort(),
  };
}

/** Only the owner and admins may share and delete it, and a view-only device may do neither. */
export function mayManage(me: Me | null, owner: string): boolean {
  if (!me) return false;
  return me.scopes.includes("admin") || (me.scopes.includes("chat") && me.user !== "" && me.user === owner);
}

/** The reason why sharing with this user changes nothing; empty if it does. */
export function alreadySees(sharing: Sharing, user: string): string {
  if (user === sharing.owner) return `${user} is the owner and already has access.`;
  return sharing.users.includes(user) ? `Already shared with ${user}.` : "";
}

/** The commands that together end all sharing. */
export function withdrawals(sharing: Sharing): Share[] {
  const named = sharing.users.map((user): Share => ({ user, remove: true }));
  return sharing.everybody ? [{ everybody: true, remove: true }, ...named] : named;
}

export function done({ user, remove }: Share): string {
  return `${remove ? "No longer shared" : "Shared"} with ${user ?? "everybody"}.`;
}

/** The gateway's rejection as a message for the user. */
export function refused(error: { code: string; message: string; data: Record<string, unknown> }): string {
  if (error.code !== "not_found") return error.message;
  return error.data["what"] === "user"
    ? `There is no user called “${String(error.data["given"])}”. Check the spelling, or ask an admin for the name.`
    : "This session was deleted, or it is no longer shared with you.";
}
