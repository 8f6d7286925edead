// Entry point: removes the login code from the address, then draws the page and opens the connection.

import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./app";
import { registerWorker } from "./live/push";
import { loginError } from "./login";
import { toastError } from "./parts/toast";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/frame.css";
import { learnMe, me, signIn, takeCode } from "./wire/login";
import { key } from "./wire/rest";
import { wire } from "./wire/socket";

async function start(): Promise<void> {
  document.documentElement.dataset["theme"] = localStorage.getItem("fairlead.theme") ?? "auto";
  const code = takeCode();
  if (code) {
    try {
      await signIn(code);
    } catch (error) {
      // If this browser is already signed in, a used link needs only a toast.
      if (key.value) toastError(error);
      else loginError.value = error instanceof Error ? error.message : String(error);
    }
  }
  effect(() => {
    if (key.value) {
      wire.start();
      learnMe().catch(toastError);
    } else wire.stop();
  });
  // A page opened while the gateway was unreachable loads the identity when it is back.
  effect(() => {
    if (wire.status.value === "live" && !me.peek()) learnMe().catch(toastError);
  });
  render(<App />, document.getElementById("app")!);
  registerWorker().catch(() => undefined);
}

void start();
