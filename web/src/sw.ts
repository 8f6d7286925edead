// The service worker: keeps the app shell for when there is no network, shows push messages, and answers from them. It
// calls the gateway for one thing only: to answer with the single-use code that a message brought.

interface Extendable {
  waitUntil(work: Promise<unknown>): void;
}

interface FetchEvent extends Extendable {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}

interface PushEvent extends Extendable {
  data: { json(): unknown } | null;
}

interface ClickEvent extends Extendable {
  action: string;
  notification: Notification;
}

interface Page {
  url: string;
  focus(): Promise<Page>;
  navigate(url: string): Promise<Page | null>;
}

interface Scope {
  addEventListener(type: "install" | "activate", listener: (event: Extendable) => void): void;
  addEventListener(type: "fetch", listener: (event: FetchEvent) => void): void;
  addEventListener(type: "push", listener: (event: PushEvent) => void): void;
  addEventListener(type: "notificationclick", listener: (event: ClickEvent) => void): void;
  skipWaiting(): Promise<void>;
  clients: {
    claim(): Promise<void>;
    matchAll(options: object): Promise<Page[]>;
    openWindow(url: string): Promise<Page | null>;
  };
  registration: { showNotification(title: string, options: object): Promise<void> };
  location: Location;
}

const worker = self as unknown as Scope;
const CACHE = "fairlead-1";
const SHELL = "/app";
const SESSION = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

interface PushPayload {
  title?: unknown;
  message?: unknown;
  kind?: unknown;
  sessionId?: unknown;
  cursor?: unknown;
  answers?: { allow?: unknown; deny?: unknown };
}

worker.addEventListener("install", (event) => {
  event.waitUntil(worker.skipWaiting());
});

worker.addEventListener("activate", (event) => {
  event.waitUntil(
    (async () => {
      for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
      await worker.clients.claim();
    })(),
  );
});

worker.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== worker.location.origin) return;
  if (event.request.mode === "navigate" && (url.pathname === "/" || url.pathname.startsWith("/app")))
    event.respondWith(shell(event.request));
  else if (url.pathname.startsWith("/assets/") || url.pathname === "/icon.svg") event.respondWith(asset(event.request));
});

/** The newest shell from the network, else the cached one. */
async function shell(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(SHELL, answer.clone());
    return answer;
  } catch {
    return (await cache.match(SHELL)) ?? Response.error();
  }
}

/** The name contains a hash, so a cached asset never goes stale. */
async function asset(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) await cache.put(request, answer.clone());
  return answer;
}

worker.addEventListener("push", (event) => {
  event.waitUntil(show(event.data?.json() as PushPayload));
});

async function show(payload: PushPayload): Promise<void> {
  const answers = payload.answers;
  const codes =
    typeof answers?.allow === "string" && typeof answers.deny === "string"
      ? { allow: answers.allow, deny: answers.deny }
      : null;
  const session = text(payload.sessionId);
  await worker.registration.showNotification(text(payload.title) || "Fairlead", {
    body: text(payload.message),
    icon: "/icon-192.png",
    badge: "/icon-192.png",
    tag: text(payload.cursor),
    requireInteraction: payload.kind === "permission.asked",
    data: { session: SESSION.test(session) ? session : "", kind: text(payload.kind), codes },
    actions: codes
      ? [
          { action: "allow", title: "Allow once" },
          { action: "deny", title: "Deny" },
        ]
      : [],
  });
}

worker.addEventListener("notificationclick", (event) => {
  const { session, kind, codes } = event.notification.data as {
    session: string;
    kind: string;
    codes: { allow: string; deny: string } | null;
  };
  event.notification.close();
  const answer = event.action === "allow" || event.action === "deny" ? event.action : null;
  if (answer && codes) event.waitUntil(decide(codes[answer]));
  else event.waitUntil(open(kind === "permission.asked" ? "/app/approvals" : session ? `/app/s/${session}` : "/app"));
});

async function decide(code: string): Promise<void> {
  let why = "";
  try {
    const answer = await fetch("/v1/answers", {
      method: "POST",
      headers: { Authorization: `Bearer ${await deviceKey()}`, "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
      credentials: "omit",
      redirect: "error",
    });
    if (answer.ok) return;
    why = ((await answer.json()) as { error?: { message?: string } }).error?.message ?? "";
  } catch {
    why = "The gateway cannot be reached.";
  }
  // The user must not believe that the request was answered.
  await worker.registration.showNotification("Not answered", {
    body: why || "Open Fairlead to answer the request.",
    icon: "/icon-192.png",
    data: { session: "", kind: "permission.asked", codes: null },
  });
}

/** Opens only pages of this app: a push message never contains an address. */
async function open(path: string): Promise<void> {
  const pages = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = pages[0];
  if (!page) {
    await worker.clients.openWindow(path);
    return;
  }
  const focused = await page.focus();
  await focused.navigate(path);
}

function deviceKey(): Promise<string> {
  return new Promise((resolve) => {
    const opening = indexedDB.open("fairlead", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("device");
    opening.onerror = () => resolve("");
    opening.onsuccess = () => {
      const asked = opening.result.transaction("device").objectStore("device").get("key");
      asked.onsuccess = () => resolve(typeof asked.result === "string" ? asked.result : "");
      asked.onerror = () => resolve("");
      asked.transaction!.oncomplete = () => opening.result.close();
    };
  });
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
