import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { loadPart } from "../../api/client.ts";
import { text } from "../../text/en.ts";
import type { CodeEditor, Mark } from "./editor.ts";

interface Props {
  label: string;
  value: string;
  isReadOnly: boolean;
  marks: readonly Mark[];
  onChange: (value: string) => void;
}

/** A match expression in an editor, which is loaded now; where it cannot be, a field. */
export function CodeField({ label, value, isReadOnly, marks, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<CodeEditor | null>(null);
  const state = useSignal<"loading" | "ready" | "failed">("loading");
  useEffect(() => {
    let isOver = false;
    const open = ({ openEditor }: typeof import("./editor.ts")) => {
      if (isOver) return;
      editor.current = openEditor(host.current!, { value, label, isReadOnly, onChange });
      state.value = "ready";
    };
    loadPart(() => import("./editor.ts")).then(open, () => state.value = "failed");
    return () => {
      isOver = true;
      editor.current?.close();
    };
  }, []);
  useEffect(() => editor.current?.mark(marks), [marks, state.value]);
  return (
    <div class="field">
      <span aria-hidden="true">{label}</span>
      {state.value === "loading" && <p>{text.common.loading}</p>}
      {state.value === "failed" && (
        <textarea
          aria-label={label}
          class="code"
          rows={4}
          defaultValue={value}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
      )}
      <div ref={host} />
    </div>
  );
}
