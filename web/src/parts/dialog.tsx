// A modal dialog: the browser's own, which keeps the focus inside, closes with Escape and gives the focus back.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Button } from "./button";

interface DialogProps {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, wide, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement;
    shown?.showModal();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const outside = (event: MouseEvent) => {
    if (event.target === dialog.current) onClose();
  };
  return (
    <dialog
      ref={dialog}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={name}
      onClick={outside}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={name}>{title}</h2>
        <Button label="Close" icon="close" kind="quiet" bare onClick={onClose} />
      </header>
      <div class="body">{children}</div>
    </dialog>
  );
}

/** Asks before an action that cannot be undone. Cancel has the focus, so that a stray key press does nothing. */
export function Confirm(props: { title: string; text: string; action: string; onDone: (yes: boolean) => void }) {
  const cancel = useRef<HTMLButtonElement>(null);
  useEffect(() => cancel.current?.focus(), []);
  return (
    <Dialog title={props.title} onClose={() => props.onDone(false)}>
      <p>{props.text}</p>
      <div class="actions">
        <Button label="Cancel" buttonRef={cancel} onClick={() => props.onDone(false)} />
        <Button label={props.action} kind="danger" onClick={() => props.onDone(true)} />
      </div>
    </Dialog>
  );
}
