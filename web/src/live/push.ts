// This browser's push subscription: created by the browser, stored by the gateway. The service worker needs the device's
// key to answer from a notification and cannot read the page's storage, so it has a copy while there is a subscription.

import { effect, signal } from "@preact/signals";
import { WireError, key, rest } from "../wire/rest";

export interface Subscription {
  id: string;
  topics: string[];
  failed?: string;
}

export type PushState = "unknown" | "unsupported" | "denied" | "off" | "on";

export const pushState = signal<PushState>("unknown");
export const subscription = signal<Subscription | null>(null);

const supported = () => "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;

/** The only script that the policy allows to be loaded by URL. */
const scripts = trusted();

function trusted(): { createScriptURL: (url: string) => string } {
  const types = (window as { trustedTypes?: { createPolicy: (name: string, rules: object) => unknown } }).trustedTypes;
  const rules = {
    createScriptURL: (url: string) => {
      if (url !== "/sw.js") throw new TypeError(`${url} is not a script of this app`);
      return url;
    },
  };
  return (types?.createPolicy("fairlead", rules) ?? rules) as { createScriptURL: (url: string) => string };
}

export async function registerWorker(): Promise<ServiceWorkerRegistration | null> {
  if (!("serviceWorker" in navigator)) return null;
  return navigator.serviceWorker.register(scripts.createScriptURL("/sw.js"), { scope: "/" });
}

export async function learnPush(): Promise<void> {
  if (!supported()) {
    pushState.value = "unsupported";
    return;
  }
  const { subscriptions } = await rest.get<{ subscriptions: Subscription[] }>("/v1/push/subscriptions");
  const registration = await navigator.serviceWorker.getRegistration("/");
  const here = await registration?.pushManager.getSubscription();
  subscription.value = subscriptions[0] ?? null;
  pushState.value = Notification.permission === "denied" ? "denied" : here && subscription.value ? "on" : "off";
}

export async function turnOn(topics: string[]): Promise<void> {
  if ((await Notification.requestPermission()) !== "granted") {
    pushState.value = "denied";
    return;
  }
  const registration = await navigator.serviceWorker.ready;
  const { key: server } = await rest.get<{ key: string }>("/v1/push/key");
  let made: PushSubscription;
  try {
    made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: server });
  } catch (error) {
    throw new WireError(
      "push",
      `The browser's push service rejected the subscription: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  subscription.value = await rest.post<Subscription>("/v1/push/subscriptions", { ...made.toJSON(), topics });
  await copyKey(key.value);
  pushState.value = "on";
}

export async function turnOff(): Promise<void> {
  const id = subscription.value?.id;
  const registration = await navigator.serviceWorker.getRegistration("/");
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
  if (id) await rest.delete(`/v1/push/subscriptions/${id}`);
  await copyKey("");
  subscription.value = null;
  pushState.value = "off";
}

export async function setTopics(topics: string[]): Promise<void> {
  const id = subscription.value?.id;
  if (id) subscription.value = await rest.patch<Subscription>(`/v1/push/subscriptions/${id}`, { topics });
}

export async function tryPush(): Promise<void> {
  const id = subscription.value?.id;
  if (id) await rest.post(`/v1/push/subscriptions/${id}/test`);
}

/** Stores the key where `sw.ts` reads it; an empty key deletes it. */
export function copyKey(secret: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("fairlead", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("device");
    opening.onerror = () => reject(new Error("The browser does not allow storage here."));
    opening.onsuccess = () => {
      const change = opening.result.transaction("device", "readwrite");
      const store = change.objectStore("device");
      if (secret) store.put(secret, "key");
      else store.delete("key");
      change.oncomplete = () => {
        opening.result.close();
        resolve();
      };
      change.onerror = () => reject(new Error("The browser does not allow storage here."));
    };
  });
}

// After signing out, notifications must not answer requests.
let had = key.peek() !== "";
effect(() => {
  const has = key.value !== "";
  if (had && !has && "indexedDB" in window) void copyKey("").catch(() => undefined);
  had = has;
});
