import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
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
  /** the text as the editor has it */
  const written = useRef(value);
  const write = (text: string) => {
    written.current = text;
    onChange(text);
  };
  const state = useSignal<"loading" | "ready" | "failed">("loading");
  useEffect(() => {
    let isOver = false;
    const open = ({ openEditor }: typeof import("./editor.ts")) => {
      if (isOver) return;
      editor.current = openEditor(host.current!, {
        value: written.current,
        label,
        isReadOnly,
        onChange: write,
      });
      state.value = "ready";
    };
    loadPart(() => import("./editor.ts")).then(open, () => state.value = "failed");
    return () => {
      isOver = true;
      editor.current?.close();
    };
  }, []);
  useEffect(() => editor.current?.mark(marks), [marks, state.value]);
  // A text from elsewhere, such as a sentence, replaces the one here, before the
  // next key, which would be lost.
  useLayoutEffect(() => {
    if (written.current === value) return;
    written.current = value;
    editor.current?.write(value);
  }, [value, state.value]);
  return (
    <div class="field">
      <span aria-hidden="true">{label}</span>
      {state.value === "loading" && <p>{text.common.loading}</p>}
      {state.value === "failed" && (
        <textarea
          aria-label={label}
          class="code"
          rows={4}
          value={value}
          onInput={({ currentTarget }) => write(currentTarget.value)}
        />
      )}
      <div ref={host} />
    </div>
  );
}
