// Times in a short form, with the exact time in the tooltip and in `dateTime`.

import { signal } from "@preact/signals";

const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 30_000);

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const LONG = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function formatTime(at: number, today: number): string {
  const ago = today - at;
  if (ago < 60_000) return "now";
  if (ago < 3_600_000) return `${Math.floor(ago / 60_000)} min`;
  if (new Date(at).toDateString() === new Date(today).toDateString()) return CLOCK.format(at);
  if (ago < 6 * 86_400_000) return DAY.format(at);
  const year = new Date(at).getFullYear();
  return year === new Date(today).getFullYear() ? DATE.format(at) : `${DATE.format(at)} ${year}`;
}

export function Time({ at }: { at: number }) {
  if (!at) return null;
  return (
    <time dateTime={new Date(at).toISOString()} title={LONG.format(at)}>
      {formatTime(at, now.value)}
    </time>
  );
}
