import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { VmSummary } from "../../../api/routes.ts";
import { fontSize } from "../../../app/look.ts";
import { text } from "../../../text/en.ts";
import { type OpenTerminal, openTerminal } from "./open.ts";

/** One terminal of a VM, which lives on in the VM while nobody looks at it. */
export function TerminalView({ vm, job, onEnd }: { vm: VmSummary; job?: string; onEnd: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const terminal = useRef<OpenTerminal>(null);
  const find = useRef<HTMLInputElement>(null);
  const round = useSignal(0);
  const isOver = useSignal(false);
  const words = text.terminal;
  useEffect(() => {
    isOver.value = false;
    const opened = openTerminal(host.current!, vm.id, {
      job,
      fontSize: fontSize.value,
      onEnd: () => {
        isOver.value = true;
        onEnd();
      },
      onLeave: () => find.current?.focus(),
    });
    terminal.current = opened;
    opened.focus();
    return () => opened.close();
  }, [vm.id, job, round.value, fontSize.value]);
  return (
    <>
      <div class="buttons">
        <input
          ref={find}
          type="search"
          aria-label={words.find}
          placeholder={words.find}
          onKeyDown={({ key, currentTarget }) =>
            key === "Enter" && terminal.current?.find(currentTarget.value)}
        />
        {isOver.value && job === undefined && (
          <button type="button" onClick={() => round.value++}>{words.again}</button>
        )}
      </div>
      <p role="status">{isOver.value && words.over}</p>
      <div class="terminal" ref={host} role="group" aria-label={words.of(vm.name)} />
      <p class="hint">{words.links}</p>
    </>
  );
}
