// The files of a session's folder. The names for `@` mentions are kept for a while: a folder may have thousands.

import { query, rest } from "../wire/rest";

export interface FileEntry {
  name: string;
  path: string;
  folder?: boolean;
  size?: number;
  modified?: number;
}

export interface FolderFiles {
  folder: string;
  path: string;
  entries: FileEntry[];
}

export interface FileContent {
  path: string;
  size: number;
  kind: "text" | "picture" | "other";
  text?: string;
  data?: string;
  type?: string;
  cut?: boolean;
}

const KEPT_MS = 30_000;
let kept: { session: string; at: number; names: Promise<string[]> } | null = null;

export function fileNames(session: string): Promise<string[]> {
  if (kept?.session === session && Date.now() - kept.at < KEPT_MS) return kept.names;
  const names = rest.get<{ names: string[] }>(`/v1/sessions/${session}/files/names`).then((found) => found.names);
  kept = { session, at: Date.now(), names };
  // A folder that cannot be read has no names; it is asked again with the next mention.
  names.catch(() => {
    kept = null;
  });
  return names;
}

export function listFolder(session: string, path: string): Promise<FolderFiles> {
  return rest.get<FolderFiles>(`/v1/sessions/${session}/files${query({ path })}`);
}

export function readFile(session: string, path: string): Promise<FileContent> {
  return rest.get<FileContent>(`/v1/sessions/${session}/files/content${query({ path })}`);
}
