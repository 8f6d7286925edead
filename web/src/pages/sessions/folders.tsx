// Browses the folders inside the gateway's roots.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { Icon } from "../../parts/icon";
import { oneLine } from "../../state/text";
import { query, rest, type WireError } from "../../wire/rest";

interface FolderPage {
  path: string;
  folders: { name: string; path: string; repository?: boolean }[];
  parent?: string;
  more?: boolean;
}

export function FolderPicker({ value, onChoose }: { value: string; onChoose: (path: string) => void }) {
  const [at, setAt] = useState(value);
  const [page, setPage] = useState<FolderPage | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let gone = false;
    rest.get<FolderPage>(`/v1/folders${query({ path: at })}`).then(
      (found) => {
        if (gone) return;
        setPage(found);
        setError("");
      },
      (failure: WireError) => {
        if (!gone) setError(failure.message);
      },
    );
    return () => {
      gone = true;
    };
  }, [at]);
  return (
    <div class="folders">
      <div class="folders-head">
        <Button
          label="Parent folder"
          icon="up"
          kind="quiet"
          bare
          disabled={!page?.path}
          onClick={() => setAt(page?.parent ?? "")}
        />
        <span class="mono">{page ? oneLine(page.path, 300) || "Roots" : ""}</span>
        <Button
          label="Choose this folder"
          kind="primary"
          disabled={!page?.path}
          onClick={() => page?.path && onChoose(page.path)}
        />
      </div>
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      <ul>
        {page?.folders.map((folder) => (
          <li key={folder.path}>
            <button type="button" onClick={() => setAt(folder.path)}>
              <Icon name="folder" />
              <span>{oneLine(folder.name, 200)}</span>
              {folder.repository && <span class="quiet">repository</span>}
            </button>
          </li>
        ))}
      </ul>
      {page && !page.folders.length && <p class="quiet">No folders here.</p>}
      {page?.more && <p class="quiet">Not all folders are shown. Type the path in the form instead.</p>}
    </div>
  );
}
