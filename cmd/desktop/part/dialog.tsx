import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { text } from "../text/en.ts";

/** A modal dialog, which keeps the focus and closes by escape. */
export function Dialog(
  { title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren },
) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

/** The end of a form in a dialog: why it was refused, and its buttons. */
export function FormEnd(
  { error, isBusy, submit, onClose }: {
    error: string | undefined;
    isBusy: boolean;
    submit: string;
    onClose: () => void;
  },
) {
  return (
    <>
      {error && <p class="error" role="alert">{error}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>{text.common.cancel}</button>
        <button type="submit" class="main" disabled={isBusy}>{submit}</button>
      </div>
    </>
  );
}
