import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface MenuItem {
  label: string;
  isDanger?: boolean;
  onChoose: () => unknown;
}

/**
 * A button with a list of actions below it. Arrow keys move in it; Escape, a choice
 * and a click elsewhere close it.
 */
export function Menu({ label, items, children, isDisabled }: {
  /** name of the button */
  label: string;
  items: MenuItem[];
  children: ComponentChildren;
  isDisabled?: boolean;
}) {
  const isOpen = useSignal(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const entries = () => [...root.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
  useLayoutEffect(() => {
    if (!isOpen.value) return;
    entries()[0]?.focus();
    const onPress = ({ target }: Event) => root.current?.contains(target as Node) || (isOpen.value = false);
    addEventListener("pointerdown", onPress);
    return () => removeEventListener("pointerdown", onPress);
  }, [isOpen.value]);
  const close = () => {
    isOpen.value = false;
    button.current?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    if (!isOpen.value) return;
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Tab") return void (isOpen.value = false);
    if (event.key === "Escape") close();
    else if (next !== undefined) all.at(next % all.length)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  if (items.length === 0) return null;
  return (
    <div class="menu" ref={root} onKeyDown={onKey}>
      <button
        ref={button}
        type="button"
        aria-haspopup="menu"
        aria-expanded={isOpen.value}
        aria-label={label}
        title={label}
        disabled={isDisabled}
        onClick={() => isOpen.value = !isOpen.value}
      >
        {children}
      </button>
      {isOpen.value && (
        <div role="menu" aria-label={label}>
          {items.map(({ label, isDanger, onChoose }) => (
            <button
              key={label}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={isDanger ? "danger" : undefined}
              onClick={() => {
                close();
                onChoose();
              }}
            >
              {label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
