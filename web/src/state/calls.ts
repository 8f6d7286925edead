// The kind of card for a call, and its headline, from the tool's name and input. Pure.

import type { CallItem } from "./items";
import { lastPart, oneLine, shortPath, textOf } from "./text";

export type CallKind = "command" | "change" | "read" | "search" | "todo" | "web" | "agent" | "question" | "plan" | "other";

const KINDS: Record<string, CallKind> = {
  Bash: "command",
  BashOutput: "command",
  KillShell: "command",
  KillBash: "command",
  Edit: "change",
  MultiEdit: "change",
  Write: "change",
  NotebookEdit: "change",
  Read: "read",
  NotebookRead: "read",
  Glob: "search",
  Grep: "search",
  LS: "search",
  ToolSearch: "search",
  TodoWrite: "todo",
  WebFetch: "web",
  WebSearch: "web",
  Task: "agent",
  Agent: "agent",
  AskUserQuestion: "question",
  ExitPlanMode: "plan",
};

export function kindOf(name: string): CallKind {
  return KINDS[name] ?? "other";
}

function field(item: CallItem, name: string): string {
  const value = item.input[name];
  if (typeof value === "string") return value;
  // While the model writes: the field as far as it is there.
  const found = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)`).exec(item.draft)?.[1];
  if (found === undefined) return "";
  try {
    return JSON.parse(`"${found}"`) as string;
  } catch {
    return found;
  }
}

export interface Headline {
  verb: string;
  /** The subject, from the tool's input. */
  about: string;
  /** Whether it is shown in the code font. */
  code: boolean;
}

export function headline(item: CallItem, folder: string): Headline {
  const path = (name: string) => shortPath(field(item, name), folder);
  switch (item.name) {
    case "Bash":
      return { verb: "Run", about: oneLine(field(item, "description") || field(item, "command")), code: !field(item, "description") };
    case "BashOutput":
      return { verb: "Read output of", about: oneLine(field(item, "bash_id")), code: true };
    case "KillShell":
    case "KillBash":
      return { verb: "End", about: oneLine(field(item, "shell_id")), code: true };
    case "Read":
      return { verb: "Read", about: path("file_path") + range(item), code: true };
    case "Write":
      return { verb: "Write", about: path("file_path"), code: true };
    case "Edit":
    case "MultiEdit":
      return { verb: "Edit", about: path("file_path"), code: true };
    case "NotebookEdit":
    case "NotebookRead":
      return { verb: item.name === "NotebookEdit" ? "Edit" : "Read", about: path("notebook_path"), code: true };
    case "Glob":
      return { verb: "Find", about: oneLine(field(item, "pattern")), code: true };
    case "Grep":
      return { verb: "Search for", about: oneLine(field(item, "pattern")), code: true };
    case "LS":
      return { verb: "List", about: path("path"), code: true };
    case "TodoWrite":
      return { verb: "Update to-do list", about: "", code: false };
    case "WebFetch":
      return { verb: "Fetch", about: oneLine(field(item, "url")), code: true };
    case "WebSearch":
      return { verb: "Search the web for", about: oneLine(field(item, "query")), code: false };
    case "Task":
    case "Agent":
      return { verb: "Subagent", about: oneLine(item.thread?.title || field(item, "description")), code: false };
    case "AskUserQuestion":
      return { verb: "Asks you", about: "", code: false };
    case "ExitPlanMode":
      return { verb: "Proposes a plan", about: "", code: false };
    default:
      return { verb: toolName(item.name), about: gist(item), code: true };
  }
}

/** `mcp__server__tool` in readable form. */
export function toolName(name: string): string {
  const parts = /^mcp__(.+?)__(.+)$/.exec(name);
  return oneLine(parts ? `${parts[1]}: ${parts[2]}` : name || "Tool", 80);
}

function range(item: CallItem): string {
  const { offset, limit } = item.input;
  if (typeof offset !== "number") return "";
  return typeof limit === "number" ? `:${offset}-${offset + limit - 1}` : `:${offset}`;
}

function gist(item: CallItem): string {
  for (const name of ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"]) {
    const value = field(item, name);
    if (value) return oneLine(value, 120);
  }
  const first = Object.values(item.input).find((value) => typeof value === "string" || typeof value === "number");
  return first === undefined ? "" : oneLine(String(first), 80);
}

/** Whether a person must answer before the call runs. */
export function isWaiting(item: CallItem): boolean {
  return item.ask !== null && !item.ask.resolved && !item.ask.cancelled && item.state === "running";
}

/** Whether a person or a rule has denied the call: nothing failed. */
export function isDenied(item: CallItem): boolean {
  return item.state === "failed" && item.ask?.resolved?.behavior === "deny";
}

/** The result of a read or a search in a few words. */
export function outcome(item: CallItem): string {
  if (item.state === "failed") return "failed";
  if (item.state === "interrupted") return "interrupted";
  if (item.state !== "done") return "";
  const text = textOf(item.content);
  const lines = text ? text.replace(/\n$/, "").split("\n").length : 0;
  switch (item.name) {
    case "Read":
      return hasImage(item) ? "picture" : `${lines} line${lines === 1 ? "" : "s"}`;
    case "Glob":
    case "Grep":
    case "LS": {
      const none = /^(No (files|matches) found)/.test(text);
      return none || !lines ? "no results" : `${lines} line${lines === 1 ? "" : "s"}`;
    }
    default:
      return "";
  }
}

export function hasImage(item: CallItem): boolean {
  return images(item.content).length > 0;
}

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** Pictures of a result, as data: only known kinds, only data inside the block itself. */
export function images(content: unknown): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((block: unknown) => {
    const source = (block as { type?: string; source?: { media_type?: string; data?: string } } | null) ?? {};
    const { media_type: kind, data } = source.source ?? {};
    const fine = source.type === "image" && kind && PICTURES.has(kind) && data && /^[A-Za-z0-9+/]+={0,2}$/.test(data);
    return fine ? [`data:${kind};base64,${data}`] : [];
  });
}

export interface Todo {
  text: string;
  state: "pending" | "in_progress" | "completed";
}

export function todos(input: Record<string, unknown>): Todo[] {
  const list = Array.isArray(input["todos"]) ? (input["todos"] as Record<string, unknown>[]) : [];
  return list.map((todo) => ({
    text: oneLine(String(todo["content"] ?? ""), 300),
    state: todo["status"] === "completed" || todo["status"] === "in_progress" ? todo["status"] : "pending",
  }));
}

export function ending(path: string): string {
  const name = lastPart(path);
  return /^(makefile|dockerfile)$/i.test(name) ? name.toLowerCase() : (name.split(".").pop() ?? "");
}
