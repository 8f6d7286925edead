// Keyboard shortcuts: each is declared where it works, and the help dialog lists those that work now. A single key does
// nothing while the user types, and no shortcut answers a request.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import "../style/keys.css";
import { Dialog } from "./dialog";

export interface Shortcut {
  /** One after the other, as `KeyboardEvent.key`; `g a` is two keys. */
  keys: string[];
  about: string;
  run: () => void;
}

interface Group {
  name: string;
  shortcuts: Shortcut[];
}

const groups = signal<Group[]>([]);
export const helpShown = signal(false);
const BETWEEN_MS = 1200;
let pressed: { key: string; at: number } | null = null;

/** The shortcuts of a page or a part, as long as it is shown. */
export function useKeys(name: string, shortcuts: Shortcut[]): void {
  useEffect(() => {
    const group = { name, shortcuts };
    groups.value = [...groups.value, group];
    return () => {
      groups.value = groups.value.filter((one) => one !== group);
    };
  }, []);
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.closest("input, textarea, select, .xterm, [role=menu]") !== null;
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const before = pressed && event.timeStamp - pressed.at < BETWEEN_MS ? pressed.key : "";
  pressed = { key: event.key, at: event.timeStamp };
  const all = groups.value.flatMap((group) => group.shortcuts);
  const found =
    all.find(({ keys }) => keys.length === 2 && keys[0] === before && keys[1] === event.key) ??
    all.find(({ keys }) => keys.length === 1 && keys[0] === event.key);
  if (!found) return;
  event.preventDefault();
  pressed = null;
  found.run();
});

export function HelpSheet() {
  if (!helpShown.value) return null;
  return (
    <Dialog
      title="Keyboard shortcuts"
      onClose={() => {
        helpShown.value = false;
      }}
    >
      {groups.value.map((group, index) => (
        <section key={index} class="keys">
          <h3>{group.name}</h3>
          <dl>
            {group.shortcuts.map((one) => (
              <div key={one.about}>
                <dt>
                  {one.keys.map((name, place) => (
                    <kbd key={place}>{SHOWN[name] ?? name}</kbd>
                  ))}
                </dt>
                <dd>{one.about}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <section class="keys">
        <h3>Everywhere</h3>
        <dl>
          <div>
            <dt>
              <kbd>Ctrl</kbd>
              <kbd>K</kbd>
            </dt>
            <dd>Go to a session, a page or an action</dd>
          </div>
          <div>
            <dt>
              <kbd>Tab</kbd>
            </dt>
            <dd>Next control (with Shift: previous)</dd>
          </div>
          <div>
            <dt>
              <kbd>Esc</kbd>
            </dt>
            <dd>Close a dialog or a menu</dd>
          </div>
        </dl>
      </section>
    </Dialog>
  );
}

const SHOWN: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", Enter: "Enter", Escape: "Esc" };
