// The frame around every page: navigation, connection status, the page itself, toasts.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { waitingCount } from "./live/sessions";
import { Login } from "./login";
import { PAGES, type Page, type PageProps } from "./pages";
import { Button } from "./parts/button";
import { Icon } from "./parts/icon";
import "./notify";
import { HelpSheet, helpShown, useKeys } from "./parts/keys";
import { Palette } from "./parts/palette";
import { Toasts } from "./parts/toast";
import { Link, address, fits, go } from "./router";
import { may, me, signedIn } from "./wire/login";
import { wire } from "./wire/socket";

const loaded = signal(new Map<Page, ComponentType<PageProps>>());
const failed = signal<Page | null>(null);

function find(at: string): { page: Page; params: Record<string, string> } | null {
  for (const page of PAGES)
    for (const path of page.paths) {
      const params = fits(path, at);
      if (params) return { page, params };
    }
  return null;
}

async function load(page: Page): Promise<void> {
  try {
    const { default: component } = await page.load();
    loaded.value = new Map(loaded.value).set(page, component);
    failed.value = null;
  } catch {
    failed.value = page;
  }
}

// Load the page of this address while `/v1/me` is requested, instead of after the frame is drawn.
const first = find(address.peek());
if (first) void load(first.page);

export function App() {
  if (!signedIn.value)
    return (
      <>
        <Login />
        <Toasts />
      </>
    );
  const at = address.value;
  const found = find(at);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Nav at={at} />
      <div class="page" id="main" tabIndex={-1}>
        {found ? <CurrentPage page={found.page} params={found.params} /> : <NotFound />}
      </div>
      <Connection />
      <Toasts />
      <HelpSheet />
      <Palette />
    </div>
  );
}

function CurrentPage({ page, params }: { page: Page; params: Record<string, string> }) {
  const Component = loaded.value.get(page);
  useEffect(() => {
    if (!loaded.peek().has(page)) void load(page);
    document.title = `${page.title} · Fairlead`;
  }, [page]);
  // A page that needs a scope is not drawn, and sends no request, until the scopes of this device are known.
  if (Component && (!page.scope || may(page.scope))) return <Component params={params} />;
  if (page.scope && me.value && !may(page.scope))
    return (
      <main class="empty">
        <h1>{page.title}</h1>
        <p>This device cannot open this page: its credential lacks the scope “{page.scope}”.</p>
      </main>
    );
  if (failed.value === page)
    return (
      <main class="empty">
        <h1>{page.title}</h1>
        <p>This page could not be loaded. The gateway may be restarting or may have been updated.</p>
        <Button label="Reload" icon="refresh" onClick={() => location.reload()} />
      </main>
    );
  return <main class="empty" aria-busy="true" aria-label={page.title} />;
}

function NotFound() {
  return (
    <main class="empty">
      <h1>Page not found</h1>
      <p>
        No page has this address. <Link to="/app">Go to sessions</Link>
      </p>
    </main>
  );
}

function Nav({ at }: { at: string }) {
  useKeys("Pages", [
    {
      keys: ["?"],
      about: "Keyboard shortcuts",
      run: () => {
        helpShown.value = true;
      },
    },
    ...PAGES.flatMap(({ nav }) => (nav ? [{ keys: ["g", nav.key], about: nav.label, run: () => go(nav.to) }] : [])),
  ]);
  const shown = PAGES.filter((page) => page.nav && (!page.scope || may(page.scope)));
  return (
    <nav class="nav" aria-label="Pages">
      <ul>
        {shown.map((page) => {
          const nav = page.nav!;
          const here = page.paths.some((path) => fits(path, at));
          const count = nav.icon === "waiting" ? waitingCount.value : 0;
          return (
            <li key={nav.to}>
              <Link to={nav.to} class="nav-link" aria-current={here ? "page" : undefined}>
                <Icon name={nav.icon} />
                <span>{nav.label}</span>
                {count > 0 && (
                  <span class="badge">
                    {count}
                    <span class="hidden-visually"> waiting for you</span>
                  </span>
                )}
              </Link>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

/** Shown only while the page may be out of date. */
function Connection() {
  const status = wire.status.value;
  return (
    <div class="connection" role="status" data-status={status}>
      {status === "offline" && (
        <span class="connection-message">
          Offline: the gateway cannot be reached.
          <Button label="Retry now" kind="quiet" onClick={() => wire.reconnect()} />
        </span>
      )}
    </div>
  );
}
