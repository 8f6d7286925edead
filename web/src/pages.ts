// The table of pages. A new page is a folder under pages/ and a line here; it is loaded when it is first opened.

import type { ComponentType } from "preact";
import type { IconName } from "./parts/icon";
import type { Scope } from "./wire/types";

export interface PageProps {
  params: Record<string, string>;
}

export interface Page {
  /** Its paths, with `:name` for parameters. */
  paths: string[];
  title: string;
  /** Its navigation entry. A page without one is reached only by links. */
  nav?: { icon: IconName; to: string; label: string; key: string };
  /** The scope it requires. Without one, every signed-in device may open it. */
  scope?: Scope;
  load: () => Promise<{ default: ComponentType<PageProps> }>;
}

export const PAGES: Page[] = [
  {
    paths: ["/", "/app", "/app/s/:session", "/app/new", "/app/search"],
    title: "Sessions",
    nav: { icon: "sessions", to: "/app", label: "Sessions", key: "s" },
    load: () => import("./pages/sessions"),
  },
  {
    paths: ["/app/s/:session/files"],
    title: "Files",
    load: () => import("./pages/files"),
  },
  {
    paths: ["/app/s/:session/changes"],
    title: "Changes",
    load: () => import("./pages/review"),
  },
  {
    paths: ["/app/approvals"],
    title: "Waiting for you",
    nav: { icon: "waiting", to: "/app/approvals", label: "Waiting", key: "w" },
    load: () => import("./pages/approvals"),
  },
  {
    paths: [
      "/app/terminals",
      "/app/terminals/:name",
      "/app/terminals/of/:owner/:name",
      "/app/terminals/session/:session",
    ],
    title: "Terminals",
    nav: { icon: "terminal", to: "/app/terminals", label: "Terminals", key: "t" },
    scope: "terminal",
    load: () => import("./pages/terminals"),
  },
  {
    paths: ["/app/notifications"],
    title: "Notifications",
    nav: { icon: "notifications", to: "/app/notifications", label: "Notifications", key: "n" },
    load: () => import("./pages/notifications"),
  },
  {
    paths: ["/app/usage"],
    title: "Usage",
    nav: { icon: "usage", to: "/app/usage", label: "Usage", key: "u" },
    load: () => import("./pages/usage"),
  },
  {
    paths: ["/app/operation"],
    title: "Operation",
    scope: "admin",
    load: () => import("./pages/operation"),
  },
  {
    paths: ["/app/settings"],
    title: "Settings",
    nav: { icon: "settings", to: "/app/settings", label: "Settings", key: "e" },
    load: () => import("./pages/settings"),
  },
];
