// The sign-in page: explains how to get a login link, and accepts a pasted one.

import { signal } from "@preact/signals";
import { Button } from "./parts/button";
import { Field } from "./parts/field";
import { signIn } from "./wire/login";
import { wasSignedOut } from "./wire/rest";

export const loginError = signal("");
const busy = signal(false);
const pasted = signal("");

async function use(event: Event): Promise<void> {
  event.preventDefault();
  const code = /(?:#login=)?([A-Za-z0-9_-]{16,})\s*$/.exec(pasted.value)?.[1];
  if (!code) {
    loginError.value = "This is not a login link. A login link ends with #login= and a long code.";
    return;
  }
  busy.value = true;
  try {
    await signIn(code);
    loginError.value = "";
    pasted.value = "";
  } catch (error) {
    loginError.value = error instanceof Error ? error.message : String(error);
  }
  busy.value = false;
}

export function Login() {
  return (
    <main class="login">
      <form onSubmit={(event) => void use(event)}>
        <h1>Fairlead</h1>
        {wasSignedOut.value && (
          <p class="banner wait" role="status">
            You were signed out: this device was revoked, or its access has ended.
          </p>
        )}
        <p>
          This browser is not signed in. Run <code>fairlead login</code> on the gateway's machine, then open the link that
          it prints or paste it here. The link works once and expires after ten minutes.
        </p>
        <Field label="Login link" {...(loginError.value ? { wrong: loginError.value } : {})}>
          <input
            class="input"
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={pasted.value}
            onInput={(event) => {
              pasted.value = event.currentTarget.value;
            }}
          />
        </Field>
        <Button label="Sign in" kind="primary" type="submit" busy={busy.value} />
      </form>
    </main>
  );
}
