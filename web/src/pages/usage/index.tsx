// Usage and cost by day, project and model; tools; the agent's limits. Every chart has its table.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { Bars } from "../../parts/chart";
import { Field } from "../../parts/field";
import { Time } from "../../parts/time";
import { type UsageStats, type Sum, byModel, daysOf, sums, windowOf } from "../../state/usage";
import { amount, duration, lastPart, money, oneLine } from "../../state/text";
import { query, rest } from "../../wire/rest";
import "../../style/panel.css";

const DAY_MS = 86_400_000;
const SPANS = [7, 30, 90, 365];

export default function UsagePage() {
  const [span, setSpan] = useState(30);
  const [project, setProject] = useState("");
  const [found, setFound] = useState<{ usage: UsageStats; days: string[] } | null>(null);
  const [error, setError] = useState("");
  const load = async (length: number) => {
    const offset = -new Date().getTimezoneOffset();
    const today = Math.floor((Date.now() + offset * 60_000) / DAY_MS) * DAY_MS - offset * 60_000;
    const until = today + DAY_MS;
    const since = until - length * DAY_MS;
    try {
      const usage = await rest.get<UsageStats>(`/v1/insight${query({ since, until, offset })}`);
      setFound({ usage, days: daysOf(since, until, offset) });
      setError("");
    } catch (caught) {
      setError(caught instanceof Error ? caught.message : String(caught));
    }
  };
  useEffect(() => void load(span), [span]);
  const projects = useMemo(
    () => [...new Set([...(found?.usage.spent ?? []), ...(found?.usage.turns ?? [])].map((row) => row.project))].sort(),
    [found],
  );
  const shown = useMemo(() => {
    if (!found || !project) return found?.usage ?? null;
    const of = <T extends { project: string }>(rows: T[]) => rows.filter((row) => row.project === project);
    return { ...found.usage, spent: of(found.usage.spent), turns: of(found.usage.turns) };
  }, [found, project]);
  return (
    <main class="plain usage">
      <div class="usage-bar">
        <h1>Usage</h1>
        <Field label="Project">
          <select class="input" value={project} onChange={(event) => setProject(event.currentTarget.value)}>
            <option value="">All projects</option>
            {projects.map((one) => (
              <option key={one} value={one}>
                {oneLine(one, 80) || "No folder"}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Period">
          <select class="input" value={String(span)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
            {SPANS.map((days) => (
              <option key={days} value={String(days)}>
                {days === 365 ? "1 year" : `${days} days`}
              </option>
            ))}
          </select>
        </Field>
        <Button label="Refresh" icon="refresh" kind="quiet" bare onClick={() => void load(span)} />
      </div>
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      {shown && found && <Shown usage={shown} days={found.days} />}
    </main>
  );
}

function Shown({ usage, days }: { usage: UsageStats; days: string[] }) {
  const daily = useMemo(() => sums(usage, "day", days), [usage, days]);
  const projects = useMemo(() => sums(usage, "project"), [usage]);
  const models = useMemo(() => sums(usage, "model"), [usage]);
  const costs = useMemo(() => byModel(usage, days, (row) => row.cost_usd), [usage, days]);
  const tokens = useMemo(() => byModel(usage, days, (row) => row.output + row.input), [usage, days]);
  const total = daily.reduce((all, one) => ({
    ...all,
    cost: all.cost + one.cost,
    input: all.input + one.input,
    output: all.output + one.output,
    turns: all.turns + one.turns,
  }));
  return (
    <>
      <dl class="totals">
        <Total name="Cost" value={money(total.cost)} />
        <Total name="Turns" value={amount(total.turns)} />
        <Total name="Tokens in" value={amount(total.input)} />
        <Total name="Tokens out" value={amount(total.output)} />
      </dl>
      <Limits usage={usage} />
      <Panel title="Cost by day">
        <Bars name="Cost by day" labels={days} series={named(costs)} format={money} short={shortDay} />
        <Sums rows={[...daily].reverse()} first="Day" turns />
      </Panel>
      <Panel title="Tokens by day">
        <Bars name="Tokens by day" labels={days} series={named(tokens)} format={amount} short={shortDay} />
        <Sums rows={[...daily].reverse()} first="Day" turns />
      </Panel>
      <Panel title="By project">
        <One name="Cost by project" rows={projects.slice(0, 12)} short={lastPart} />
        <Sums rows={projects} first="Project" turns />
      </Panel>
      <Panel title="By model">
        <One name="Cost by model" rows={models.slice(0, 12)} short={(name) => oneLine(name, 18)} />
        <Sums rows={models} first="Model" />
      </Panel>
      <Tools usage={usage} />
    </>
  );
}

function named(series: { label: string; values: number[] }[]) {
  return series.map((one) => ({ ...one, label: oneLine(one.label, 60) || "Unknown model" }));
}

function shortDay(day: string): string {
  return day.slice(5);
}

function Total({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Panel({ title, children }: { title: string; children: preact.ComponentChildren }) {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function One({ name, rows, short }: { name: string; rows: Sum[]; short: (name: string) => string }) {
  const labels = useMemo(() => rows.map((row) => row.name), [rows]);
  const series = useMemo(() => [{ label: name, values: rows.map((row) => row.cost) }], [rows, name]);
  if (!rows.length) return null;
  return <Bars name={name} labels={labels} series={series} format={money} short={short} />;
}

function Sums({ rows, first, turns = false }: { rows: Sum[]; first: string; turns?: boolean }) {
  const some = rows.filter((row) => row.cost || row.input || row.output || row.turns);
  if (!some.length) return <p class="soft">No usage in this period.</p>;
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label={`Table by ${first.toLowerCase()}`}>
      <table class="grid-table">
        <thead>
          <tr>
            <th scope="col">{first}</th>
            <th scope="col" class="number">
              Cost
            </th>
            <th scope="col" class="number">
              In
            </th>
            <th scope="col" class="number">
              Out
            </th>
            <th scope="col" class="number">
              Cached
            </th>
            {turns && (
              <>
                <th scope="col" class="number">
                  Turns
                </th>
                <th scope="col" class="number">
                  Failed
                </th>
              </>
            )}
          </tr>
        </thead>
        <tbody>
          {some.map((row) => (
            <tr key={row.name}>
              <th scope="row">{oneLine(row.name, 120) || "Unknown"}</th>
              <td class="number">{money(row.cost)}</td>
              <td class="number">{amount(row.input)}</td>
              <td class="number">{amount(row.output)}</td>
              <td class="number">{amount(row.cache)}</td>
              {turns && (
                <>
                  <td class="number">{row.turns}</td>
                  <td class="number">{row.failed}</td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Tools({ usage }: { usage: UsageStats }) {
  const tools = usage.tools;
  const labels = useMemo(() => tools.slice(0, 15).map((tool) => tool.tool), [tools]);
  const series = useMemo(() => {
    const some = tools.slice(0, 15);
    return [
      { label: "done", values: some.map((tool) => tool.calls - tool.failed - tool.interrupted) },
      { label: "failed", values: some.map((tool) => tool.failed) },
      { label: "interrupted", values: some.map((tool) => tool.interrupted) },
    ];
  }, [tools]);
  return (
    <Panel title="Tools (all projects)">
      {tools.length > 0 && (
        <Bars name="Calls by tool" labels={labels} series={series} format={amount} short={(name) => oneLine(name, 14)} />
      )}
      {tools.length === 0 && <p class="soft">No tool calls in this period.</p>}
      {tools.length > 0 && (
        <div class="table-scroll" tabIndex={0} role="group" aria-label="Table by tool">
          <table class="grid-table">
            <thead>
              <tr>
                <th scope="col">Tool</th>
                {["Calls", "Failed", "Interrupted", "Denied", "Average time"].map((name) => (
                  <th key={name} scope="col" class="number">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {tools.map((tool) => (
                <tr key={tool.tool}>
                  <th scope="row">{oneLine(tool.tool, 120)}</th>
                  <td class="number">{tool.calls}</td>
                  <td class="number">{tool.failed}</td>
                  <td class="number">{tool.interrupted}</td>
                  <td class="number">{tool.denied}</td>
                  <td class="number">{tool.calls ? duration(tool.total_ms / tool.calls) : ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function Limits({ usage }: { usage: UsageStats }) {
  if (!usage.limits.length) return null;
  return (
    <Panel title="Account limits">
      {usage.limits.map((limit) => {
        const { name, used, status, resets, at } = windowOf(limit);
        return (
          <div class="limit" key={limit.kind}>
            <div>
              <strong>{oneLine(name, 60)}</strong>
              <span>
                {used === null ? oneLine(status, 60) : `${Math.round(used * 100)} % used`}
                {resets > 0 && ` · resets ${new Date(resets).toLocaleString()}`}
              </span>
            </div>
            {used !== null && <meter min={0} max={1} low={0.75} high={0.9} optimum={0} value={used} aria-label={oneLine(name, 60)} />}
            <span class="soft">
              Reported <Time at={at} />
            </span>
          </div>
        );
      })}
    </Panel>
  );
}
