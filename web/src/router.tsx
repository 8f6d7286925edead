// The current address as signals. Internal links change it without loading a page.

import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

const path = signal(location.pathname);
const search = signal(location.search);

export const address = computed(() => path.value);
export const params = computed(() => new URLSearchParams(search.value));

function look(): void {
  path.value = location.pathname;
  search.value = location.search;
}

addEventListener("popstate", look);

/** Accepts only pages of this app, so that external data cannot navigate elsewhere. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  if (!/^\/app(\/|$|\?)/.test(to)) throw new Error(`${to} is not a page of this app`);
  history[options.replace ? "replaceState" : "pushState"](null, "", to);
  look();
}

/** The parameters of a path that matches a pattern such as `/app/s/:session`, else null. */
export function fits(pattern: string, at: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const found = at.split("/").filter(Boolean);
  if (wanted.length !== found.length) return null;
  const values: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const given = found[index] ?? "";
    if (part.startsWith(":")) values[part.slice(1)] = decodeURIComponent(given);
    else if (part !== given) return null;
  }
  return values;
}

interface LinkProps {
  to: string;
  class?: string;
  title?: string;
  id?: string;
  "aria-current"?: "page" | "true" | undefined;
  "aria-label"?: string;
  children?: ComponentChildren;
}

export function Link({ to, children, ...others }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a {...others} href={to} onClick={follow}>
      {children}
    </a>
  );
}
