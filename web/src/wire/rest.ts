// Calls of the gateway under /v1, with the device's key in a header. Nothing else in the UI calls fetch.

import { signal } from "@preact/signals";

/** An error of the gateway or of the connection to it. `code` is stable; the message is for people. */
export class WireError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
    readonly data: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = "WireError";
  }
}

const KEY = "fairlead.key";

/** The device's key; empty while signed out. Kept by this origin alone, never put into a URL. */
export const key = signal(localStorage.getItem(KEY) ?? "");

/** The gateway rejected this device's key: it was revoked or has expired. The sign-in page says so. */
export const wasSignedOut = signal(false);

export function keepKey(secret: string): void {
  key.value = secret;
  if (secret) wasSignedOut.value = false;
  if (secret) localStorage.setItem(KEY, secret);
  else localStorage.removeItem(KEY);
}

export async function call(method: string, path: string, body?: unknown, options: RequestInit = {}): Promise<Response> {
  // A path from data could otherwise name another host.
  if (!path.startsWith("/v1/")) throw new WireError("bad_request", `${path} is not a path of the gateway`);
  const headers = new Headers(options.headers);
  const used = key.value;
  if (used) headers.set("Authorization", `Bearer ${used}`);
  if (body !== undefined) headers.set("Content-Type", "application/json");
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  let answer: Response;
  try {
    answer = await fetch(path, { ...options, ...sent, method, headers, credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new WireError("offline", "The gateway cannot be reached. It may be restarting; the connection is retried.");
  }
  if (answer.ok) return answer;
  const failure = await refusal(answer);
  // Only the rejected key is deleted: the user may have signed in meanwhile.
  if (failure.code === "bad_credential" && used && used === key.value) {
    wasSignedOut.value = true;
    keepKey("");
  }
  throw failure;
}

async function refusal(answer: Response): Promise<WireError> {
  try {
    const { error } = (await answer.json()) as {
      error: { code: string; message: string; data?: Record<string, unknown> };
    };
    return new WireError(error.code, error.message, answer.status, error.data ?? {});
  } catch {
    return new WireError("internal", `The gateway answered ${answer.status}.`, answer.status);
  }
}

async function json<T>(method: string, path: string, body?: unknown, options?: RequestInit): Promise<T> {
  return (await (await call(method, path, body, options)).json()) as T;
}

export const rest = {
  get: <T>(path: string, options?: RequestInit) => json<T>("GET", path, undefined, options),
  post: <T>(path: string, body?: unknown, options?: RequestInit) => json<T>("POST", path, body ?? {}, options),
  put: <T>(path: string, body?: unknown) => json<T>("PUT", path, body),
  patch: <T>(path: string, body?: unknown) => json<T>("PATCH", path, body),
  delete: <T>(path: string) => json<T>("DELETE", path),
};

/** A query string of the parameters that have a value. */
export function query(values: Record<string, string | number | boolean | undefined | null>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}` : "";
}

export function asWire(error: unknown): WireError {
  return error instanceof WireError ? error : new WireError("internal", error instanceof Error ? error.message : String(error));
}
