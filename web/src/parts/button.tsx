// A button with a name: as text, or as an accessible label if only an icon is visible.

import type { ComponentChildren, Ref } from "preact";
import { Icon, type IconName } from "./icon";

interface ButtonProps {
  /** What it does. Shown unless `bare`, where it is the accessible name and the tooltip. */
  label: string;
  icon?: IconName;
  kind?: "plain" | "primary" | "quiet" | "danger";
  bare?: boolean;
  busy?: boolean;
  disabled?: boolean;
  pressed?: boolean;
  expanded?: boolean;
  type?: "button" | "submit";
  class?: string;
  title?: string;
  controls?: string;
  haspopup?: "menu" | "dialog" | "listbox";
  onClick?: (event: MouseEvent) => void;
  buttonRef?: Ref<HTMLButtonElement>;
  children?: ComponentChildren;
}

export function Button(props: ButtonProps) {
  const { label, icon, kind = "plain", bare, busy, disabled, type = "button" } = props;
  const classes = ["button", kind === "plain" ? "" : kind, bare ? "bare" : "", props.class ?? ""];
  return (
    <button
      ref={props.buttonRef ?? null}
      type={type}
      class={classes.filter(Boolean).join(" ")}
      disabled={disabled || busy}
      onClick={props.onClick}
      title={props.title ?? (bare ? label : undefined)}
      aria-label={bare ? label : undefined}
      aria-busy={busy}
      aria-pressed={props.pressed}
      aria-expanded={props.expanded}
      aria-controls={props.controls}
      aria-haspopup={props.haspopup}
    >
      {icon && <Icon name={icon} />}
      {!bare && <span>{label}</span>}
      {props.children}
    </button>
  );
}
