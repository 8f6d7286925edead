// The changes of a session, as the gateway sends them, and the comments of a reviewer. Pure functions.

export type Status = "added" | "deleted" | "modified" | "renamed" | "copied" | "retyped" | "unmerged";

export interface ChangedFile {
  /** Names the file in requests; `path` is for display. */
  key: string;
  path: string;
  status: Status;
  old_path?: string;
  old_key?: string;
  kind?: "file" | "link" | "submodule" | "large";
  added?: number;
  removed?: number;
  binary?: boolean;
  executable?: boolean | null;
  staged?: boolean;
  unstaged?: boolean;
  untracked?: boolean;
}

export interface GitState {
  top: string;
  branch?: string;
  head?: string;
  subject?: string;
  upstream?: string;
  ahead?: number;
  behind?: number;
  staged?: number;
  merging?: boolean;
  worktree_of?: string;
}

export interface WorktreeState {
  path: string;
  main: string;
  branch?: string;
  into?: string;
  uncommitted?: number;
  unmerged?: number;
}

/** What a person must know before a worktree is removed. */
export function lossOf(state: WorktreeState): string {
  const { uncommitted = 0, unmerged = 0 } = state;
  const parts = [
    uncommitted ? `${uncommitted} uncommitted file${uncommitted > 1 ? "s" : ""}` : "",
    unmerged ? `${unmerged} commit${unmerged > 1 ? "s" : ""} that no other branch has` : "",
  ].filter(Boolean);
  return parts.length ? `This deletes ${parts.join(" and ")}. It cannot be undone.` : "All of its work is in other branches.";
}

export interface TurnChanges {
  turn: string;
  at: number;
  prompt?: string;
  changed?: boolean;
  running?: boolean;
}

export interface ChangeList {
  source: "git" | "log";
  base: string;
  files: ChangedFile[];
  total: number;
  before?: string;
  after?: string;
  next?: number | null;
  git?: GitState | null;
  turns?: TurnChanges[];
  began?: number;
}

/** Sign, line in the old file, line in the new file, text. */
export type DiffRow = [string, number, number, string];
export type DiffPair = [DiffRow | null, DiffRow | null];

export interface FileDiff {
  key: string;
  path: string;
  total: number;
  start?: number;
  rows?: DiffRow[];
  pairs?: DiffPair[];
  note?: string;
  old_size?: number | null;
  new_size?: number | null;
}

export interface Comment {
  id: string;
  path: string;
  key: string;
  base: string;
  /** First and last line; of the old file if `old`. 0: about the file as a whole. */
  from: number;
  to: number;
  old: boolean;
  /** The lines, with their signs. */
  quote: string[];
  text: string;
}

const QUOTED_LINES = 30;

export function baseName(base: string, turns: TurnChanges[] = []): string {
  if (base === "session") return "since the session began";
  if (base === "commit") return "since the last commit";
  const place = turns.findIndex((turn) => turn.turn === base);
  return place < 0 ? "of a turn" : `of turn ${place + 1}`;
}

export function placeOf(comment: Pick<Comment, "path" | "from" | "to" | "old">): string {
  if (!comment.from) return comment.path;
  const lines = comment.from === comment.to ? `${comment.from}` : `${comment.from}-${comment.to}`;
  return `${comment.path}:${lines}${comment.old ? " (old)" : ""}`;
}

/** The lines that a selection of rows is about: of the new file, unless it has only removed lines. */
export function linesOf(rows: DiffRow[]): { from: number; to: number; old: boolean } {
  const now = rows.map((row) => row[2]).filter((line) => line > 0);
  const before = rows.map((row) => row[1]).filter((line) => line > 0);
  const lines = now.length ? now : before;
  if (!lines.length) return { from: 0, to: 0, old: false };
  return { from: Math.min(...lines), to: Math.max(...lines), old: !now.length };
}

/** All comments as one message, each with its place and the lines it is about. */
export function messageOf(comments: Comment[]): string {
  const parts = comments.map((comment) => {
    const quote = comment.quote.slice(0, QUOTED_LINES);
    if (comment.quote.length > QUOTED_LINES) quote.push("…");
    const fence = fenceFor(quote.join("\n"));
    const lines = quote.length ? `\n${fence}diff\n${quote.join("\n")}\n${fence}` : "";
    return `${placeOf(comment)}${lines}\n${comment.text.trim()}`;
  });
  return `Review comments on your changes:\n\n${parts.join("\n\n")}`;
}

/** A fence that the text cannot close. */
function fenceFor(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((run) => run[0].length));
  return "`".repeat(longest + 1);
}

export function matching(files: ChangedFile[], words: string): ChangedFile[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return files;
  return files.filter((file) => wanted.every((word) => file.path.toLowerCase().includes(word)));
}

/** What is shown in place of rows. */
export function noteOf(diff: FileDiff): string {
  const sizes = sizesOf(diff);
  const [kind, before, after] = (diff.note ?? "").split(" ");
  switch (kind) {
    case "binary":
      return `Binary file${sizes}. Its content is not shown.`;
    case "large":
      return `Large file${sizes}. Its content is not shown.`;
    case "mode":
      return "Only the file's permissions changed.";
    case "renamed":
      return diff.old_size === null || diff.old_size === undefined ? "The file is empty." : "Only the file's name changed.";
    case "unchanged":
      return "The file is unchanged.";
    case "submodule":
      return `Submodule: commit ${before} → ${after}. Its files are reviewed in its own repository.`;
    default:
      return "";
  }
}

function sizesOf({ old_size: before, new_size: after }: FileDiff): string {
  const shown = [before, after].map((size) => (size === null || size === undefined ? "" : bytes(size)));
  if (shown[0] && shown[1]) return ` (${shown[0]} → ${shown[1]})`;
  return shown[0] || shown[1] ? ` (${shown[0] || shown[1]})` : "";
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  const units = ["KB", "MB", "GB", "TB"];
  let value = size;
  let unit = -1;
  do {
    value /= 1024;
    unit++;
  } while (value >= 1024 && unit < units.length - 1);
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** Where a change is: in a commit, in the index, in the working tree. */
export function stateOf(file: ChangedFile): string {
  if (file.untracked) return "untracked";
  if (file.staged && file.unstaged) return "partly staged";
  if (file.staged) return "staged";
  return file.unstaged ? "" : "committed";
}
