// A menu button with the keys of the ARIA practices: arrows, Home, End, first letters, Escape.

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "./button";
import { Icon, type IconName } from "./icon";

export interface MenuItem {
  label: string;
  about?: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  /** Of several, one is chosen. */
  chosen?: boolean;
  onChoose: () => void;
}

interface MenuProps {
  label: string;
  icon?: IconName;
  bare?: boolean;
  kind?: "plain" | "quiet";
  class?: string;
  items: MenuItem[];
}

export function Menu({ label, icon, bare, kind = "quiet", items, ...others }: MenuProps) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();

  useLayoutEffect(() => {
    if (!open || !button.current || !list.current) return;
    // In the top layer, so that no ancestor can cut it off.
    list.current.showPopover();
    place(button.current, list.current);
    const chosen = list.current?.querySelector<HTMLElement>('[aria-checked="true"]');
    (chosen ?? entries(list.current)[0])?.focus();
  }, [open]);

  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      const target = event.target as Node;
      if (!list.current?.contains(target) && !button.current?.contains(target)) setOpen(false);
    };
    const away = () => setOpen(false);
    // What it belongs to moves under it; its own scrolling does not.
    const scrolled = (event: Event) => {
      if (event.target instanceof Node && !list.current?.contains(event.target) && event.target.contains(button.current)) away();
    };
    document.addEventListener("pointerdown", outside);
    addEventListener("resize", away);
    document.addEventListener("scroll", scrolled, true);
    return () => {
      document.removeEventListener("pointerdown", outside);
      removeEventListener("resize", away);
      document.removeEventListener("scroll", scrolled, true);
    };
  }, [open]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    const all = entries(list.current);
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = (index: number) => all[(index + all.length) % all.length]?.focus();
    if (event.key === "ArrowDown") to(at + 1);
    else if (event.key === "ArrowUp") to(at - 1);
    else if (event.key === "Home") to(0);
    else if (event.key === "End") to(-1);
    else if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key.length === 1) {
      const letter = event.key.toLowerCase();
      const turned = [...all.slice(at + 1), ...all.slice(0, at + 1)];
      turned.find((entry) => entry.textContent?.trim().toLowerCase().startsWith(letter))?.focus();
      return;
    } else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
  };
  const role = items.some((item) => item.chosen !== undefined) ? "menuitemradio" : "menuitem";
  return (
    <span class="menu">
      <Button
        buttonRef={button}
        label={label}
        kind={kind}
        haspopup="menu"
        expanded={open}
        {...(icon ? { icon } : {})}
        {...(bare ? { bare } : {})}
        {...(open ? { controls: id } : {})}
        {...others}
        onClick={() => setOpen(!open)}
      />
      {open && (
        <ul id={id} ref={list} role="menu" popover="manual" aria-label={label} onKeyDown={keys}>
          {items.map((item, index) => (
            <li role="none" key={index}>
              <button
                type="button"
                role={role}
                tabIndex={-1}
                disabled={item.disabled}
                class={item.danger ? "danger" : undefined}
                aria-checked={role === "menuitemradio" ? (item.chosen ?? false) : undefined}
                onClick={() => {
                  close();
                  item.onChoose();
                }}
              >
                {item.icon && <Icon name={item.icon} />}
                <span>
                  {item.label}
                  {item.about && <small>{item.about}</small>}
                </span>
                {item.chosen && <Icon name="check" />}
              </button>
            </li>
          ))}
        </ul>
      )}
    </span>
  );
}

function entries(list: HTMLElement | null): HTMLElement[] {
  return [...(list?.querySelectorAll<HTMLElement>('[role^="menuitem"]:not(:disabled)') ?? [])];
}

/** Below its button, or above it where there is more room, always inside the window. */
function place(button: HTMLElement, list: HTMLElement): void {
  const at = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = list;
  const left = Math.max(8, Math.min(at.right - width, innerWidth - width - 8));
  const below = at.bottom + 4;
  const top = below + height > innerHeight - 8 && at.top > innerHeight - at.bottom ? at.top - height - 4 : below;
  list.style.left = `${at.left + width < innerWidth - 8 ? Math.max(8, at.left) : left}px`;
  list.style.top = `${Math.max(8, top)}px`;
}
