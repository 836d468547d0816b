import { signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { text } from "../../text/en.ts";
import { Icon } from "../../part/icon.tsx";
import { entriesOf, type KnownRule, readRules } from "./entries.ts";
import { type Entry, findEntries } from "./find.ts";

const isOpen = signal(false);

export function openPalette(): void {
  isOpen.value = true;
}

/** Control+K or Command+K opens it wherever a person is; a dialog with a draft stays on top. */
export function Palette() {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      // Programs in the terminal and the editor have this key too.
      if ((event.target as HTMLElement).closest?.(".xterm, .cm-editor")) return;
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) openPalette();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return isOpen.value ? <PaletteDialog onClose={() => isOpen.value = false} /> : null;
}

/** The entries found; the arrow keys choose, Enter goes there. */
function PaletteDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const typed = useSignal("");
  const at = useSignal(0);
  const rules = useSignal<KnownRule[]>([]);
  const entries = useComputed(() => entriesOf(rules.value));
  const found = findEntries(entries.value, typed.value);
  const words = text.palette;
  // Before the next key: an effect after the paint would lose the first letters of a quick person.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    // Without rules, everything else is found.
    readRules().then((read) => rules.value = read, () => {});
    return () => before?.isConnected && before.focus();
  }, []);
  useEffect(() => {
    dialog.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    entry.run();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) at.value = (at.value + step + found.length) % Math.max(1, found.length);
    else if (event.key === "Enter") run(found[at.value]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label={words.title}
      onClose={onClose}
      onKeyDown={onKey}
      onClick={({ target }) => target === dialog.current && onClose()}
    >
      <div class="palette-field">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-found"
          aria-activedescendant={found.length > 0 ? `palette-${at.value}` : undefined}
          aria-label={words.title}
          placeholder={words.hint}
          autoFocus
          spellcheck={false}
          value={typed.value}
          onInput={({ currentTarget }) => [typed.value, at.value] = [currentTarget.value, 0]}
        />
      </div>
      <ul id="palette-found" role="listbox" aria-label={words.found}>
        {found.map((entry, place) => (
          <li
            key={entry.id}
            id={`palette-${place}`}
            role="option"
            aria-selected={place === at.value}
            onPointerMove={({ movementX, movementY }) => {
              // The list changes below a pointer that rests.
              if (movementX !== 0 || movementY !== 0) at.value = place;
            }}
            onClick={() => run(entry)}
          >
            <span>{entry.label}</span>
            <span class="hint">{entry.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="empty" role="status">{words.nothing(typed.value)}</p>}
    </dialog>
  );
}
