// Trusted folders: a folder's settings are shown first, and exactly those are trusted.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import { Time } from "../../parts/time";
import { toast, toastError } from "../../parts/toast";
import { params } from "../../router";
import { asText, oneLine, plain } from "../../state/text";
import { query, rest } from "../../wire/rest";

interface Trusted {
  path: string;
  digest: string;
  at: number;
  by: string;
}

interface Report {
  path: string;
  digest: string;
  trusted: boolean;
  files: string[];
  hooks: Record<string, unknown>[];
  mcp_servers: Record<string, unknown>[];
  environment: string[];
  permissions: string[];
  other: string[];
}

export function Trust() {
  const [folders, setFolders] = useState<Trusted[]>([]);
  const asked = params.value.get("trust") ?? "";
  const [path, setPath] = useState(asked);
  const [report, setReport] = useState<Report | null>(null);
  const [wrong, setWrong] = useState("");
  const load = () => rest.get<{ folders: Trusted[] }>("/v1/trust").then((found) => setFolders(found.folders), toastError);
  useEffect(() => {
    void load();
    // Opened by the link of an untrusted folder's banner.
    if (asked) void inspect(asked);
  }, []);
  const inspect = async (folder: string) => {
    setWrong("");
    setReport(null);
    try {
      setReport(await rest.get<Report>(`/v1/trust${query({ path: folder })}`));
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
    }
  };
  const trust = async (shown: Report) => {
    try {
      await rest.post("/v1/trust", { path: shown.path, digest: shown.digest });
      toast("Folder trusted as shown.");
      setReport(null);
      setPath("");
    } catch (error) {
      toastError(error);
      await inspect(shown.path);
    }
    await load();
  };
  const untrust = async (folder: string) => {
    try {
      await rest.delete(`/v1/trust${query({ path: folder })}`);
    } catch (error) {
      toastError(error);
    }
    await load();
  };
  return (
    <section class="panel" aria-labelledby="trust">
      <h2 id="trust">Trusted folders</h2>
      <p class="soft">
        Sessions in an untrusted folder use only your own settings: the folder's hooks, MCP servers and variables stay off.
        If one of its settings files changes, the folder must be trusted again.
      </p>
      <ul class="rows">
        {folders.map((folder) => (
          <li key={folder.path}>
            <div>
              <code>{plain(folder.path)}</code>
              <small>
                {oneLine(folder.by, 80)} · <Time at={folder.at} />
              </small>
            </div>
            <span class="row-actions">
              <Button label={`Review ${oneLine(folder.path, 80)}`} icon="eye" kind="quiet" bare onClick={() => void inspect(folder.path)} />
              <Button
                label={`Stop trusting ${oneLine(folder.path, 80)}`}
                icon="trash"
                kind="danger"
                bare
                onClick={() => void untrust(folder.path)}
              />
            </span>
          </li>
        ))}
      </ul>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (path.trim()) void inspect(path.trim());
        }}
      >
        <Field label="Folder" hint="Full path on the gateway's machine" {...(wrong ? { wrong } : {})}>
          <input
            class="input mono"
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={path}
            onInput={(event) => setPath(event.currentTarget.value)}
          />
        </Field>
        <div class="actions">
          <Button label="Review settings" icon="eye" type="submit" disabled={!path.trim()} />
        </div>
      </form>
      {report && <Shown report={report} onTrust={() => void trust(report)} />}
    </section>
  );
}

function Shown({ report, onTrust }: { report: Report; onTrust: () => void }) {
  const parts: [string, string[]][] = [
    ["Hooks (programs it runs)", report.hooks.map(asText)],
    ["MCP servers it starts", report.mcp_servers.map(asText)],
    ["Environment variables it sets", report.environment],
    ["Permissions it grants", report.permissions],
    ["Other settings", report.other],
    ["Settings files", report.files],
  ];
  const some = parts.filter(([, values]) => values.length);
  return (
    <article class="report" aria-label={`Settings of ${oneLine(report.path, 120)}`}>
      <h3>
        <code>{plain(report.path)}</code>
      </h3>
      {!some.length && <p>This folder has no settings of its own.</p>}
      {some.map(([title, values]) => (
        <section key={title}>
          <h4>{title}</h4>
          <ul>
            {values.map((value, index) => (
              <li key={index}>
                <pre>{plain(value)}</pre>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <div class="actions">
        {report.trusted ? (
          <p class="soft">This folder is trusted with these settings.</p>
        ) : (
          <Button label="Trust this folder as shown" kind="primary" onClick={onTrust} />
        )}
      </div>
    </article>
  );
}
