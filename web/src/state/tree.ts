// Sessions as a tree: a fork is below its parent.

import type { Summary } from "../wire/types";

export interface Branch {
  summary: Summary;
  depth: number;
}

/** In order of use: a branch counts as used when anything below it was. Deeper than three is shown as three. */
export function branches(sessions: Summary[]): Branch[] {
  const known = new Map(sessions.map((one) => [one.session, one]));
  const children = new Map<string, Summary[]>();
  for (const one of sessions) {
    const parent = one.parent && one.parent !== one.session && known.has(one.parent) ? one.parent : "";
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  const used = new Map<string, number>();
  const useOf = (one: Summary, above: Set<string> = new Set()): number => {
    const cached = used.get(one.session);
    if (cached !== undefined) return cached;
    if (above.has(one.session)) return one.updated;
    const below = (children.get(one.session) ?? []).map((child) => useOf(child, new Set(above).add(one.session)));
    const most = Math.max(one.updated, ...below);
    used.set(one.session, most);
    return most;
  };
  const shown: Branch[] = [];
  const placed = new Set<string>();
  const place = (parent: string, depth: number): void => {
    const list = (children.get(parent) ?? []).toSorted((one, two) => useOf(two) - useOf(one));
    for (const summary of list) {
      if (placed.has(summary.session)) continue;
      placed.add(summary.session);
      shown.push({ summary, depth: Math.min(depth, 3) });
      place(summary.session, depth + 1);
    }
  };
  place("", 0);
  return shown;
}

/** The parent of a session, and its forks. */
export function relatives(session: string, all: Summary[]): { parent: Summary | null; forks: Summary[] } {
  const own = all.find((one) => one.session === session);
  return {
    parent: all.find((one) => one.session === own?.parent) ?? null,
    forks: all.filter((one) => one.parent === session),
  };
}

const WORKTREE = /^(.+)\/\.worktrees\/([^/]+)$/;

/** The folder that a session is listed under: that of the repository, if it works in one of its worktrees. */
export function mainFolder(cwd: string): string {
  return WORKTREE.exec(cwd)?.[1] ?? cwd;
}

/** What is shown of a session that works in a worktree; empty for another one. */
export function worktreeName(cwd: string): string {
  const name = WORKTREE.exec(cwd)?.[2];
  return name ? `worktree ${name}` : "";
}
