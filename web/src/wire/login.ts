// The identity of this device. The one-time code of a login link is in the fragment, which browsers never send.

import { computed, effect, signal } from "@preact/signals";
import { WireError, keepKey, key, rest } from "./rest";
import type { Me, Scope } from "./types";

/** The identity from the gateway; null until it is loaded, and when signed out. */
export const me = signal<Me | null>(null);
export const signedIn = computed(() => key.value !== "");

export function may(scope: Scope): boolean {
  const scopes = me.value?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}

/** Takes the code out of the address before anything else can read or keep it. */
export function takeCode(): string {
  const found = /^#login=([A-Za-z0-9_-]{16,})$/.exec(location.hash);
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return found?.[1] ?? "";
}

export async function signIn(code: string): Promise<void> {
  const made = await rest.post<{ secret: string }>("/v1/login", { code, name: deviceName() });
  keepKey(made.secret);
}

export function signOut(): void {
  me.value = null;
  keepKey("");
}

export async function learnMe(): Promise<void> {
  try {
    me.value = await rest.get<Me>("/v1/me");
  } catch (error) {
    if (!(error instanceof WireError && error.code === "offline")) throw error;
  }
}

effect(() => {
  if (!key.value) me.value = null;
});

/** What the list of devices shows: the browser and the system, nothing finer. */
export function deviceName(agent: string = navigator.userAgent): string {
  const pick = (names: [RegExp, string][]) => names.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = pick([
    [/Edg\//, "Edge"],
    [/Firefox\//, "Firefox"],
    [/(Chrome|CriOS)\//, "Chrome"],
    [/Safari\//, "Safari"],
  ]);
  const system = pick([
    [/iPhone|iPad/, "iOS"],
    [/Android/, "Android"],
    [/Mac OS X/, "macOS"],
    [/Windows/, "Windows"],
    [/Linux/, "Linux"],
  ]);
  return [browser ?? "Browser", system].filter(Boolean).join(" on ");
}
