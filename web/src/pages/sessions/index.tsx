// Sessions: the list next to the conversation; on a phone one of them.

import { useEffect } from "preact/hooks";
import type { PageProps } from "../../pages";
import { address, go } from "../../router";
import { may } from "../../wire/login";
import { Button } from "../../parts/button";
import { SessionList } from "./list";
import { NewSession } from "./new";
import { Session } from "./session";
import "./sessions.css";
import "./session.css";
import "./composer.css";
import "./new.css";
import "./items.css";
import "./calls.css";

export default function Sessions({ params }: PageProps) {
  const fresh = address.value === "/app/new";
  const open = params["session"] ?? "";
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || typing(event.target)) return;
      event.preventDefault();
      document.getElementById("session-search")?.focus();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return (
    <div class={open || fresh ? "sessions-page opened" : "sessions-page"}>
      <SessionList current={open} alone={!open && !fresh} />
      {open ? <Session key={open} id={open} /> : fresh ? <NewSession /> : <Welcome />}
    </div>
  );
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function Welcome() {
  return (
    <section class="main-pane empty welcome" aria-label="Start session">
      <p>Choose a session or start a new one.</p>
      {may("chat") && <Button label="New session" icon="plus" kind="primary" onClick={() => go("/app/new")} />}
    </section>
  );
}
