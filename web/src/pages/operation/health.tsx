// The health checks: what is wrong, and what to do.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { plain } from "../../state/text";
import { rest } from "../../wire/rest";

interface Check {
  name: string;
  level: "ok" | "warn" | "bad";
  found: string;
  todo: string;
}

const NAMES: Record<string, string> = {
  store: "Database",
  disk: "Disk",
  audit: "Audit log",
  keeper: "Keeper",
  lag: "Lag",
};
const LEVELS = { ok: "OK", warn: "Warning", bad: "Bad" } as const;

export function Health() {
  const [checks, setChecks] = useState<Check[] | null>(null);
  const [error, setError] = useState("");
  const load = async () => {
    try {
      setChecks((await rest.get<{ checks: Check[] }>("/v1/gateway/health")).checks);
      setError("");
    } catch (caught) {
      setError(caught instanceof Error ? caught.message : String(caught));
    }
  };
  useEffect(() => {
    void load();
    const timer = setInterval(() => void load(), 15_000);
    return () => clearInterval(timer);
  }, []);
  const bad = checks?.some((check) => check.level === "bad");
  return (
    <section class="panel" aria-labelledby="health">
      <h2 id="health">Health</h2>
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      {checks && (
        <p role="status">{bad ? "The gateway is not ready: it cannot do all of its work." : "The gateway is ready."}</p>
      )}
      <ul class="rows checks">
        {checks?.map((check) => (
          <li key={check.name}>
            <div>
              <strong>{NAMES[check.name] ?? check.name}</strong>
              <small>{plain(check.found)}</small>
              {check.todo && <small class="todo">{plain(check.todo)}</small>}
            </div>
            <span class={`level ${check.level}`}>{LEVELS[check.level]}</span>
          </li>
        ))}
      </ul>
      <div class="actions">
        <Button label="Check again" icon="refresh" onClick={() => void load()} />
      </div>
    </section>
  );
}
