// The files of a session's folder, read-only: folders, and one file at a time as text, Markdown or a picture.

import { useEffect, useState } from "preact/hooks";
import { type FileContent, type FolderFiles, listFolder, readFile } from "../../live/files";
import type { PageProps } from "../../pages";
import { Button } from "../../parts/button";
import { Code, Copy } from "../../parts/code";
import { Icon } from "../../parts/icon";
import { Markdown } from "../../parts/markdown";
import { Time } from "../../parts/time";
import { Link, go, params as asked } from "../../router";
import { ending } from "../../state/calls";
import { amount, lastPart, oneLine, plain } from "../../state/text";
import { asWire, query } from "../../wire/rest";
import "./files.css";

export default function Files({ params }: PageProps) {
  const session = params["session"] ?? "";
  const folder = asked.value.get("path") ?? "";
  const file = asked.value.get("file") ?? "";
  return (
    <main class={file ? "files-page opened" : "files-page"}>
      <header class="files-head">
        <Button label="Back to session" icon="back" kind="quiet" bare onClick={() => go(`/app/s/${session}`)} />
        <h1>Files</h1>
        <Crumbs session={session} path={file || folder} />
      </header>
      <Folder session={session} path={folder} file={file} />
      {file ? <Viewer key={file} session={session} path={file} folder={folder} /> : <p class="files-none">Choose a file.</p>}
    </main>
  );
}

/** The address of a folder, or of a file with its folder next to it. */
function place(session: string, path: string, file = ""): string {
  return `/app/s/${session}/files${query({ path, file })}`;
}

/** The folders above a path, each as a link. */
function Crumbs({ session, path }: { session: string; path: string }) {
  const parts = path.split("/").filter(Boolean);
  return (
    <nav class="crumbs" aria-label="Folders">
      <Link to={place(session, "")}>Session folder</Link>
      {parts.map((part, index) => (
        <span key={index}>
          <span aria-hidden="true"> / </span>
          {index < parts.length - 1 ? (
            <Link to={place(session, parts.slice(0, index + 1).join("/"))}>{oneLine(part, 60)}</Link>
          ) : (
            <span aria-current="page">{oneLine(part, 60)}</span>
          )}
        </span>
      ))}
    </nav>
  );
}

/** The keys of a list: arrows, and j and k. */
function step(event: KeyboardEvent): void {
  const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey) return;
  const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("a")];
  event.preventDefault();
  all[all.indexOf(document.activeElement as HTMLElement) + by]?.focus();
}

function Folder({ session, path, file }: { session: string; path: string; file: string }) {
  const [found, setFound] = useState<FolderFiles | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let gone = false;
    setError("");
    listFolder(session, path).then(
      (page) => !gone && setFound(page),
      (failure: unknown) => !gone && setError(asWire(failure).message),
    );
    return () => {
      gone = true;
    };
  }, [session, path]);
  if (error) return <p class="files-list banner">{error}</p>;
  if (!found) return <div class="files-list" aria-busy="true" />;
  const inside = (name: string) => (path ? `${path}/${name}` : name);
  return (
    <ul class="files-list" aria-label={`Files in ${oneLine(lastPart(path) || lastPart(found.folder), 80)}`} onKeyDown={step}>
      {path && (
        <li>
          <Link to={place(session, path.split("/").slice(0, -1).join("/"))}>
            <Icon name="up" />
            <span>Parent folder</span>
          </Link>
        </li>
      )}
      {found.entries.map((entry) => (
        <li key={entry.name}>
          <Link
            to={entry.folder ? place(session, inside(entry.name)) : place(session, path, inside(entry.name))}
            aria-current={!entry.folder && inside(entry.name) === file ? "true" : undefined}
          >
            <Icon name={entry.folder ? "folder" : "file"} />
            <span dir="auto">{oneLine(entry.name, 200)}</span>
            {!entry.folder && <span class="quiet">{size(entry.size ?? 0)}</span>}
            {entry.modified ? <Time at={entry.modified} /> : null}
          </Link>
        </li>
      ))}
      {!found.entries.length && <li class="quiet">This folder is empty.</li>}
    </ul>
  );
}

function size(bytes: number): string {
  return bytes < 1000 ? `${bytes} B` : `${amount(bytes)}B`;
}

function Viewer({ session, path, folder }: { session: string; path: string; folder: string }) {
  const [found, setFound] = useState<FileContent | null>(null);
  const [error, setError] = useState("");
  const [source, setSource] = useState(false);
  useEffect(() => {
    let gone = false;
    readFile(session, path).then(
      (file) => !gone && setFound(file),
      (failure: unknown) => !gone && setError(asWire(failure).message),
    );
    return () => {
      gone = true;
    };
  }, [session, path]);
  const drawn = /\.(md|markdown)$/i.test(path);
  return (
    <section class="file-view" aria-label={oneLine(lastPart(path), 120)} aria-busy={!found && !error}>
      <header>
        <Button class="to-list" label="Back to files" icon="back" kind="quiet" bare onClick={() => go(place(session, folder))} />
        <h2>{oneLine(lastPart(path), 120)}</h2>
        {found && <span class="quiet">{size(found.size)}</span>}
        {drawn && found?.kind === "text" && (
          <Button label={source ? "Show as page" : "Show source"} kind="quiet" onClick={() => setSource(!source)} />
        )}
        <Copy text={path} label="Copy path" />
      </header>
      {error && <p class="banner">{error}</p>}
      {found?.kind === "picture" && <img src={`data:${found.type};base64,${found.data}`} alt={lastPart(path)} />}
      {found?.kind === "other" && <p class="quiet">This file is not text, and its content is not shown.</p>}
      {found?.kind === "text" &&
        (drawn && !source ? (
          <Markdown text={found.text ?? ""} />
        ) : (
          <Code text={plain(found.text ?? "")} language={ending(path)} />
        ))}
      {found?.cut && <p class="quiet">The file goes on: only its beginning is shown.</p>}
    </section>
  );
}
