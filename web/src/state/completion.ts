// Completion in the composer: `/` at the beginning for commands, `@` anywhere for files. Pure functions.

export interface Typed {
  kind: "command" | "file";
  /** Where it begins, with its sign, and what was typed after the sign. */
  start: number;
  text: string;
}

/** What is being typed before the caret, if it can be completed. */
export function typedAt(text: string, caret: number): Typed | null {
  const before = text.slice(0, caret);
  const command = /^\/([\w:.-]*)$/.exec(before);
  if (command) return { kind: "command", start: 0, text: command[1]! };
  const file = /(?:^|[\s([{"'`])@([^\s@]*)$/.exec(before);
  if (file) return { kind: "file", start: caret - file[1]!.length - 1, text: file[1]! };
  return null;
}

/** The text with the typed part replaced, and the caret after it. */
export function completed(text: string, typed: Typed, chosen: string): { text: string; caret: number } {
  const end = typed.start + 1 + typed.text.length;
  const sign = typed.kind === "command" ? "/" : "@";
  // A folder is completed further.
  const gap = chosen.endsWith("/") ? "" : " ";
  const rest = text.slice(end);
  const inserted = `${sign}${chosen}${rest.startsWith(" ") ? "" : gap}`;
  return { text: text.slice(0, typed.start) + inserted + rest, caret: typed.start + inserted.length };
}

/** Names that match: those that begin with the words first, then those whose last part does, then those that have all
 * letters in this order. */
export function matches(names: readonly string[], typed: string, most: number): string[] {
  const wanted = typed.toLowerCase();
  if (!wanted) return names.slice(0, most);
  const found: [number, string][] = [];
  for (const name of names) {
    const rank = rankOf(name.toLowerCase(), wanted);
    if (rank >= 0) found.push([rank, name]);
  }
  found.sort((one, two) => one[0] - two[0] || one[1].length - two[1].length || (one[1] < two[1] ? -1 : 1));
  return found.slice(0, most).map(([, name]) => name);
}

function rankOf(name: string, wanted: string): number {
  if (name.startsWith(wanted)) return 0;
  const last = name.replace(/\/$/, "").split("/").pop() ?? "";
  if (last.startsWith(wanted)) return 1;
  if (name.includes(wanted)) return 2;
  let at = 0;
  for (const letter of wanted) {
    at = name.indexOf(letter, at) + 1;
    if (!at) return -1;
  }
  return 3;
}
