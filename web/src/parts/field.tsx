// Form parts: each control has a label, a hint and an error that screen readers find.

import { cloneElement, type VNode } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: string;
  wrong?: string;
  /** One control: it is given the id that the label points to. */
  children: VNode<Record<string, unknown>>;
}

export function Field({ label, hint, wrong, children }: FieldProps) {
  const id = useId();
  const describedBy = [hint && `${id}-hint`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, { id, ...(describedBy ? { "aria-describedby": describedBy } : {}), "aria-invalid": Boolean(wrong) })}
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {wrong && (
        <span class="wrong" id={`${id}-wrong`} role="alert">
          {wrong}
        </span>
      )}
    </div>
  );
}

export function Switch(props: { label: string; checked: boolean; disabled?: boolean; onChange: (on: boolean) => void }) {
  return (
    <label class="switch">
      <input
        type="checkbox"
        role="switch"
        checked={props.checked}
        disabled={props.disabled}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <span>{props.label}</span>
    </label>
  );
}
