// Makes text of agents, tools and files safe to show. Pure functions, no DOM.

const SEQUENCES =
  /\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** Without control sequences, control characters and bidirectional overrides. Line ends and tabs stay. */
export function plain(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(SEQUENCES, "").replace(CONTROLS, "");
}

/** One line of it, at most `most` characters. */
export function oneLine(text: string, most = 160): string {
  const line = plain(text).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
}

/** The text blocks of a tool's result, or of a message. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return asText(content);
  return content
    .map((block: unknown) => {
      if (typeof block === "string") return block;
      const { type, text } = (block ?? {}) as { type?: unknown; text?: unknown };
      return type === "text" && typeof text === "string" ? text : "";
    })
    .filter(Boolean)
    .join("\n");
}

/** A path relative to the session's folder; other paths in full. */
export function shortPath(path: string, folder = ""): string {
  const clean = oneLine(path, 400);
  return folder && clean.startsWith(`${folder}/`) ? clean.slice(folder.length + 1) : clean;
}

export function lastPart(path: string): string {
  return oneLine(path.replace(/\/+$/, "").split("/").pop() || path);
}

const AMOUNT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function amount(value: number): string {
  return AMOUNT.format(value);
}

export function money(usd: number): string {
  return `$${usd.toFixed(usd === 0 || usd >= 0.1 ? 2 : usd >= 0.01 ? 3 : 4)}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes} min ${Math.round(seconds % 60)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
