/** Small parts of every page: tables, dialogs, notices, commands to copy, times. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { text } from "../text/en.ts";
import { act, notice, useLoaded, vms } from "../store/store.ts";
import { api, type Change } from "../api/routes.ts";
import { query, setQuery } from "../app/route.ts";
import { type Signal, useSignal, useSignalEffect } from "@preact/signals";

/**
 * A table with its name and its head; the first cell of a row is its head. Where it scrolls,
 * the keyboard reaches it. In a narrow window each row is a card, whose cells have the names
 * of their columns from the style.
 */
export function Table(
  { label, head, children }: {
    label: string;
    /** names of the columns; numbers are at the right */
    head: (string | { number: string })[];
    children: ComponentChildren;
  },
) {
  const element = useRef<HTMLTableElement>(null);
  const doesScroll = useSignal(false);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const { scrollWidth = 0, clientWidth = 0 } = element.current ?? {};
      doesScroll.value = scrollWidth > clientWidth;
    });
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  const columns = head.map((column) =>
    typeof column === "string" ? { name: column } : {
      name: column.number,
      kind: "number",
    }
  );
  // In the words of CSS: a string in quotes.
  const names = Object.fromEntries(
    columns.map(({ name }, at) => [`--column-${at + 1}`, JSON.stringify(`${name} `)]),
  );
  return (
    <table
      ref={element}
      class="cards"
      aria-label={label}
      style={names}
      tabIndex={doesScroll.value ? 0 : undefined}
    >
      <thead>
        <tr>
          {columns.map(({ name, kind }) => <th key={name} scope="col" class={kind}>{name}</th>)}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

/**
 * A modal dialog, which keeps the focus. Escape closes it; a draft in it is kept
 * until its author says otherwise.
 */
export function Dialog(
  { title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren },
) {
  const element = useRef<HTMLDialogElement>(null);
  const hasDraft = useRef(false);
  const isLeaving = useSignal(false);
  // Before the next key, which would go to the page below.
  useLayoutEffect(() => {
    element.current?.showModal();
    const onKey = (event: KeyboardEvent) => {
      const isTop = [...document.querySelectorAll("dialog[open]")].at(-1) === element.current;
      if (event.key !== "Escape" || event.defaultPrevented || !isTop) return;
      // The browser would close it with its draft.
      event.preventDefault();
      if (!hasDraft.current) onClose();
      else isLeaving.value = true;
    };
    // The focus may be nowhere: on a button that is gone.
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const keep = () => {
    isLeaving.value = false;
    element.current?.focus();
  };
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={onClose}
      onInput={(event) => {
        const [target] = event.composedPath() as HTMLElement[];
        if (target.closest("[aria-readonly=true]") === null) hasDraft.current = true;
      }}
    >
      <h2>{title}</h2>
      {isLeaving.value && (
        <div class="leaving" role="alert">
          <span>{text.common.draft}</span>
          <button type="button" onClick={keep}>{text.common.keepWriting}</button>
          <button type="button" class="danger" onClick={onClose}>{text.common.discardDraft}</button>
        </div>
      )}
      {children}
    </dialog>
  );
}

/**
 * A question before an action that cannot be taken lightly.
 * @param children the loss, in words
 * @param label of the action
 */
export function ConfirmDialog(
  { title, label, children, onClose, onConfirm }: {
    title: string;
    label: string;
    children: ComponentChildren;
    onClose: () => void;
    onConfirm: () => unknown;
  },
) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <div class="buttons">
        <button type="button" onClick={onClose}>{text.common.cancel}</button>
        <button type="button" class="danger" onClick={onConfirm}>{label}</button>
      </div>
    </Dialog>
  );
}

/** A button whose action cannot be taken lightly: it asks once more, in words. */
export function ConfirmButton(
  { label, question, loss, onConfirm }: {
    label: string;
    question: string;
    loss: string;
    onConfirm: () => unknown;
  },
) {
  const isAsking = useSignal(false);
  const close = () => isAsking.value = false;
  const confirm = async () => {
    close();
    await onConfirm();
  };
  return (
    <>
      <button type="button" onClick={() => isAsking.value = true}>{label}</button>
      {isAsking.value && (
        <ConfirmDialog title={question} label={label} onClose={close} onConfirm={confirm}>
          <p>{loss}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

/** The end of a form in a dialog: why it was refused, and its buttons. */
export function FormEnd(
  { error, isBusy, submit, cancel = text.common.cancel, onClose }: {
    error: string | undefined;
    isBusy: boolean;
    submit: string;
    cancel?: string;
    onClose: () => void;
  },
) {
  return (
    <>
      {error && <p class="error" role="alert">{error}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>{cancel}</button>
        <button type="submit" class="main" disabled={isBusy}>{submit}</button>
      </div>
    </>
  );
}

/** `ms` for which the success of an action is reported. */
const NOTICE_MS = 5000;

/** The last message: an error stays until it is dismissed, a success leaves unless a person points at it. */
export function Notice() {
  const message = notice.value;
  const isHeld = useSignal(false);
  useEffect(() => {
    if (!message || message.isError || isHeld.value) return;
    const timer = setTimeout(() => {
      if (notice.peek() === message) notice.value = undefined;
    }, NOTICE_MS);
    return () => clearTimeout(timer);
  }, [message, isHeld.value]);
  return (
    <div
      class="notice"
      role="status"
      aria-live="polite"
      onMouseEnter={() => isHeld.value = true}
      onMouseLeave={() => isHeld.value = false}
      onFocusIn={() => isHeld.value = true}
      onFocusOut={() => isHeld.value = false}
    >
      {message && (
        <p class={message.isError ? "error" : undefined}>
          <span>{message.text}</span>
          <button type="button" onClick={() => [notice.value, isHeld.value] = [undefined, false]}>
            {text.common.dismiss}
          </button>
        </p>
      )}
    </div>
  );
}

/** A command to copy. */
export function CommandLine({ command }: { command: string }) {
  const copy = () => act(() => navigator.clipboard.writeText(command), text.common.copied);
  return (
    <p class="command">
      <code>{command}</code>
      <button type="button" onClick={copy}>{text.common.copy}</button>
    </p>
  );
}

/** Hands a file to the browser, which keeps it where downloads go. */
export function saveFile(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

/** Made once: each takes longer than a row. */
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const time = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** A moment in the words of the browser's language. */
export function dateOf(moment: string | number): string {
  return date.format(new Date(moment));
}

/** The time of day. */
export function timeOf(unixMs: number): string {
  return time.format(unixMs);
}

interface Props<C extends Change> {
  label: string;
  /** heading of the column of ids */
  head: string;
  changes: C[];
  idOf: (change: C) => string;
  /** draws the rule or the detection before or after a change */
  draw: (value: C["before"]) => ComponentChildren;
  onUndone: () => void;
}

/** Recorded changes, each of which can be undone. */
export function ChangeTable<C extends Change>({ label, head, changes, idOf, draw, onUndone }: Props<C>) {
  const words = text.rules.changes;
  const undo = async (change: C) => {
    if (await act(() => api.undoChange(change.change_id), words.undone(idOf(change)))) onUndone();
  };
  return (
    <Table
      label={label}
      head={[words.time, head, words.what, words.by, words.before, words.after, text.rules.actions]}
    >
      {changes.map((change) => {
        const { change_id, at, what, before, after, by, undoes } = change;
        return (
          <tr key={change_id}>
            <td>{dateOf(at)}</td>
            <th scope="row">{idOf(change)}</th>
            <td>{words.nameOf(what, undoes)}</td>
            <td>{by.user} ({by.client})</td>
            <td>{draw(before)}</td>
            <td>{draw(after)}</td>
            <td>
              <button
                type="button"
                aria-label={words.undoOf(what, idOf(change))}
                onClick={() => undo(change)}
              >
                {words.undo}
              </button>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** The profile that the address names, or that of the first VM. */
export function useProfile(): Signal<string> {
  const chosen = useSignal(query.peek().profile ?? vms.value[0]?.profile_id ?? "code");
  useSignalEffect(() => {
    const { profile } = query.value;
    if (profile) chosen.value = profile;
  });
  return chosen;
}

/** Chooses one of the profiles, in the address too. */
export function ProfileChoice({ chosen }: { chosen: Signal<string> }) {
  const profiles = useLoaded(api.profiles).value.value?.profiles ?? [];
  const choose = (profile: string) => {
    chosen.value = profile;
    setQuery({ profile });
  };
  return (
    <label>
      {text.create.profile}{" "}
      <select value={chosen.value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {profiles.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
      </select>
    </label>
  );
}
