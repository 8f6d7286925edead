// The file changes of a call as rows of a diff: from the agent's patch if there is one, else computed.

import { structuredPatch } from "diff";

export interface Row {
  sign: " " | "+" | "-";
  text: string;
  /** Line numbers in the old and the new file; 0 if the line is not in that file. */
  old: number;
  new: number;
}

export interface Hunk {
  rows: Row[];
}

export interface Change {
  path: string;
  hunks: Hunk[];
  added: number;
  removed: number;
}

interface Patch {
  oldStart?: number;
  newStart?: number;
  lines?: string[];
}

const CONTEXT = 3;
/** Characters that are compared: two files larger than this are shown as removed and added. */
const LARGEST = 400_000;

export function changeOf(name: string, input: Record<string, unknown>, data: unknown): Change | null {
  const path = text(input["file_path"]) || text(input["notebook_path"]);
  const patches = (data as { structuredPatch?: Patch[] } | null | undefined)?.structuredPatch;
  if (Array.isArray(patches) && patches.length) return count(path, patches.map(rowsOf));
  switch (name) {
    case "Edit":
      return compare(path, text(input["old_string"]), text(input["new_string"]));
    case "MultiEdit": {
      const edits = Array.isArray(input["edits"]) ? (input["edits"] as Record<string, unknown>[]) : [];
      const hunks = edits.flatMap((edit) => compare(path, text(edit["old_string"]), text(edit["new_string"])).hunks);
      return count(path, hunks);
    }
    case "Write":
      return compare(path, text((data as { originalFile?: unknown } | null)?.originalFile), text(input["content"]));
    case "NotebookEdit":
      return compare(path, "", text(input["new_source"]));
    default:
      return null;
  }
}

export function compare(path: string, before: string, after: string): Change {
  if (before.length + after.length > LARGEST) {
    const rows = [...whole("-", before), ...whole("+", after)];
    return count(path, [{ rows }]);
  }
  const patch = structuredPatch(path, path, before, after, "", "", { context: CONTEXT });
  return count(path, patch.hunks.map(rowsOf));
}

function whole(sign: "+" | "-", content: string): Row[] {
  if (!content) return [];
  return content.split("\n").map((line, index) => ({
    sign,
    text: line,
    old: sign === "-" ? index + 1 : 0,
    new: sign === "+" ? index + 1 : 0,
  }));
}

function rowsOf(patch: Patch): Hunk {
  let before = patch.oldStart ?? 1;
  let after = patch.newStart ?? 1;
  const rows: Row[] = [];
  for (const line of patch.lines ?? []) {
    const sign = line[0];
    if (sign === "+") rows.push({ sign, text: line.slice(1), old: 0, new: after++ });
    else if (sign === "-") rows.push({ sign, text: line.slice(1), old: before++, new: 0 });
    else if (sign === " ") rows.push({ sign, text: line.slice(1), old: before++, new: after++ });
  }
  return { rows };
}

function count(path: string, hunks: Hunk[]): Change {
  const signs = hunks.flatMap((hunk) => hunk.rows.map((row) => row.sign));
  return {
    path,
    hunks: hunks.filter((hunk) => hunk.rows.length),
    added: signs.filter((sign) => sign === "+").length,
    removed: signs.filter((sign) => sign === "-").length,
  };
}

/** Old and new side by side: each removed line is paired with the added line that replaces it. */
export function sides(hunk: Hunk): { left: Row | null; right: Row | null }[] {
  const pairs: { left: Row | null; right: Row | null }[] = [];
  let removed: Row[] = [];
  let added: Row[] = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++)
      pairs.push({ left: removed[index] ?? null, right: added[index] ?? null });
    removed = [];
    added = [];
  };
  for (const row of hunk.rows) {
    if (row.sign === "-") {
      if (added.length) flush();
      removed.push(row);
    } else if (row.sign === "+") added.push(row);
    else {
      flush();
      pairs.push({ left: row, right: row });
    }
  }
  flush();
  return pairs;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
