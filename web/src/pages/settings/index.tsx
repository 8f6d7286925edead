// Settings: appearance, this device, other devices, trusted folders, version.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import { helpShown } from "../../parts/keys";
import { Link } from "../../router";
import { oneLine } from "../../state/text";
import { may, me, signOut } from "../../wire/login";
import { rest } from "../../wire/rest";
import "../../style/panel.css";
import "../../style/settings.css";
import { Devices } from "./devices";
import { Trust } from "./trust";

export default function Settings() {
  return (
    <main class="plain settings">
      <h1>Settings</h1>
      <Appearance />
      <ThisDevice />
      {may("admin") ? (
        <>
          <OperationLink />
          <Devices />
          <Trust />
        </>
      ) : (
        <p class="soft">Devices and trusted folders require the scope “admin”.</p>
      )}
      <About />
    </main>
  );
}

const THEMES = { auto: "System", light: "Light", dark: "Dark" } as const;

function Appearance() {
  const [theme, setTheme] = useState(localStorage.getItem("fairlead.theme") ?? "auto");
  return (
    <section class="panel" aria-labelledby="appearance">
      <h2 id="appearance">Appearance</h2>
      <Field label="Theme">
        <select
          class="input short"
          value={theme}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            setTheme(chosen);
            localStorage.setItem("fairlead.theme", chosen);
            document.documentElement.dataset["theme"] = chosen;
          }}
        >
          {Object.entries(THEMES).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </Field>
    </section>
  );
}

function ThisDevice() {
  const who = me.value;
  return (
    <section class="panel" aria-labelledby="this-device">
      <h2 id="this-device">This device</h2>
      {who && (
        <dl class="facts">
          <div>
            <dt>Name</dt>
            <dd>{oneLine(who.name, 120)}</dd>
          </div>
          <div>
            <dt>User</dt>
            <dd>{oneLine(who.user, 120)}</dd>
          </div>
          <div>
            <dt>Scopes</dt>
            <dd>{who.scopes.join(", ")}</dd>
          </div>
        </dl>
      )}
      <div class="actions">
        <Button label="Sign out" onClick={signOut} />
        <Button
          label="Keyboard shortcuts"
          kind="quiet"
          onClick={() => {
            helpShown.value = true;
          }}
        />
      </div>
    </section>
  );
}

function OperationLink() {
  return (
    <section class="panel" aria-labelledby="operation">
      <h2 id="operation">Operation</h2>
      <p class="soft">Whether the gateway works well, and who did what.</p>
      <div class="actions">
        <Link to="/app/operation" class="button">
          Health and audit log
        </Link>
      </div>
    </section>
  );
}

function About() {
  const [version, setVersion] = useState("");
  useEffect(() => {
    rest.get<{ info: { version: string } }>("/v1/openapi.json").then(
      (found) => setVersion(found.info.version),
      () => undefined,
    );
  }, []);
  return (
    <section class="panel" aria-labelledby="about">
      <h2 id="about">About</h2>
      <p class="soft">
        Fairlead {version}, a gateway for coding-agent sessions. This page connects only to your gateway.
      </p>
    </section>
  );
}
