// Who is typing in a session.

import { signal } from "@preact/signals";

const TYPING_MS = 6000;

export class Typing {
  readonly names = signal<string[]>([]);
  private timers = new Map<string, ReturnType<typeof setTimeout>>();

  report(name: string, active: boolean): void {
    this.remove(name);
    clearTimeout(this.timers.get(name));
    if (!active) return;
    this.names.value = [...this.names.value, name];
    // Clients do not always report that typing has stopped.
    this.timers.set(name, setTimeout(() => this.remove(name), TYPING_MS));
  }

  private remove(name: string): void {
    this.names.value = this.names.value.filter((one) => one !== name);
  }
}
