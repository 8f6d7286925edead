// Sums of the gateway's usage statistics by day, project, model and tool. Pure.

export interface Spent {
  day: string;
  project: string;
  model: string;
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  cost_usd: number;
}

export interface Turned {
  day: string;
  project: string;
  turns: number;
  failed: number;
  cancelled: number;
  duration_ms: number;
}

export interface ToolUse {
  tool: string;
  calls: number;
  failed: number;
  interrupted: number;
  denied: number;
  total_ms: number;
}

export interface LimitWindow {
  kind: string;
  at: number;
  info: Record<string, unknown>;
}

export interface UsageStats {
  spent: Spent[];
  turns: Turned[];
  tools: ToolUse[];
  limits: LimitWindow[];
}

export interface Sum {
  name: string;
  cost: number;
  input: number;
  output: number;
  cache: number;
  turns: number;
  failed: number;
}

function sum(name: string): Sum {
  return { name, cost: 0, input: 0, output: 0, cache: 0, turns: 0, failed: 0 };
}

function add(into: Sum, row: Spent): void {
  into.cost += row.cost_usd;
  into.input += row.input;
  into.output += row.output;
  into.cache += row.cache_read + row.cache_write;
}

type By = "day" | "project" | "model";

/** One sum per name, the most expensive first; days in order, including those without usage. */
export function sums(usage: UsageStats, by: By, days: string[] = []): Sum[] {
  const found = new Map<string, Sum>(by === "day" ? days.map((day) => [day, sum(day)]) : []);
  const at = (name: string) => {
    const known = found.get(name) ?? sum(name);
    found.set(name, known);
    return known;
  };
  for (const row of usage.spent) add(at(row[by]), row);
  if (by !== "model")
    for (const row of usage.turns) {
      const into = at(row[by]);
      into.turns += row.turns;
      into.failed += row.failed;
    }
  const all = [...found.values()];
  if (by === "day") return all.sort((one, two) => (one.name < two.name ? -1 : 1));
  return all.sort((one, two) => two.cost - one.cost || two.output - one.output || (one.name < two.name ? -1 : 1));
}

export interface Series {
  label: string;
  values: number[];
}

/** A value for each day, a series for each model: the largest few, the others together. */
export function byModel(usage: UsageStats, days: string[], value: (row: Spent) => number, most = 5): Series[] {
  const totals = new Map<string, number>();
  for (const row of usage.spent) totals.set(row.model, (totals.get(row.model) ?? 0) + value(row));
  const named = [...totals].sort((one, two) => two[1] - one[1]).map(([model]) => model);
  const shown = named.slice(0, most);
  const labels = named.length > most ? [...shown, "others"] : shown;
  const place = new Map(days.map((day, index) => [day, index]));
  const series = labels.map((label) => ({ label, values: days.map(() => 0) }));
  for (const row of usage.spent) {
    const index = shown.indexOf(row.model);
    const day = place.get(row.day);
    const into = series[index < 0 ? labels.length - 1 : index];
    if (into && day !== undefined) into.values[day]! += value(row);
  }
  return series;
}

const DAY_MS = 86_400_000;

/** The days of a span as they are where `offset` minutes are to be added to UTC. */
export function daysOf(since: number, until: number, offset: number): string[] {
  const first = Math.floor((since + offset * 60_000) / DAY_MS);
  const last = Math.floor((until - 1 + offset * 60_000) / DAY_MS);
  const days: string[] = [];
  for (let day = first; day <= last; day++) days.push(new Date(day * DAY_MS).toISOString().slice(0, 10));
  return days;
}

export interface Window {
  name: string;
  /** Between 0 and 1; null if the agent did not report it. */
  used: number | null;
  status: string;
  resets: number;
  at: number;
}

const NAMES: Record<string, string> = {
  five_hour: "5-hour limit",
  seven_day: "7-day limit",
  seven_day_opus: "7-day limit, Opus",
  seven_day_sonnet: "7-day limit, Sonnet",
  "": "Limit",
};

export function windowOf({ kind, at, info }: LimitWindow): Window {
  const used = info["utilization"];
  const resets = info["resetsAt"];
  const status = info["status"];
  return {
    name: NAMES[kind] ?? kind.replaceAll("_", " "),
    used: typeof used === "number" && Number.isFinite(used) ? Math.min(1, Math.max(0, used)) : null,
    status: typeof status === "string" ? status.replaceAll("_", " ") : "",
    resets: typeof resets === "number" ? resets * 1000 : 0,
    at,
  };
}

/** Each series is added to those before it. */
export function stacked(series: { values: number[] }[]): number[][] {
  const tops: number[][] = [];
  for (const [index, one] of series.entries())
    tops.push(one.values.map((value, at) => value + (tops[index - 1]?.[at] ?? 0)));
  return tops;
}
