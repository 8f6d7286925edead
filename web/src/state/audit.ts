// Entries of the audit log as text.

import { oneLine } from "./text";

export interface AuditEntry {
  n: number;
  at: number;
  action: string;
  user?: string;
  credential?: string;
  name?: string;
  agent?: boolean;
  session?: string;
  of?: number;
  data?: Record<string, unknown>;
}

/** Who acted: the display name of the credential; the gateway itself without one. */
export function whoOf(entry: AuditEntry): string {
  const name = entry.name || entry.user || "";
  if (!name) return entry.action.startsWith("sign_in.failed") ? "Unknown" : "The gateway";
  return entry.agent ? `${name}, by an agent` : name;
}

/** The data of an entry on one line: `decision: allow, tool: Bash`. */
export function detailsOf(entry: AuditEntry): string {
  const about = entry.of ? [`entry: ${entry.of}`] : [];
  const data = Object.entries(entry.data ?? {}).map(([name, value]) => `${name}: ${shown(value)}`);
  return oneLine([...about, ...data].join(", "), 600);
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.map(shown).join(" ");
  if (value !== null && typeof value === "object") return JSON.stringify(value);
  return value === true ? "yes" : String(value);
}
