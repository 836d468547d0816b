import { useSignal } from "@preact/signals";
import type { WorkView } from "../../../api/routes.ts";
import { text } from "../../../text/en.ts";

type File = WorkView["units"][number]["files"][number];

interface Props {
  file: File;
  chosen: "all" | ReadonlySet<number> | undefined;
  onFile: (isChosen: boolean) => void;
  onPiece: (piece: number) => void;
}

/** One changed file: its diff, to be taken whole or piece by piece. */
export function WorkFile({ file, chosen, onFile, onPiece }: Props) {
  const isOpen = useSignal(false);
  const words = text.work;
  const { path, status, added, removed, notable_by, hunks } = file;
  return (
    <li class="change">
      <div class="buttons">
        <label class="check">
          <input
            type="checkbox"
            aria-label={words.takeFile(path)}
            checked={chosen === "all"}
            onChange={({ currentTarget }) => onFile(currentTarget.checked)}
          />
          <code>{path}</code>
        </label>
        <span class={`change-${status}`}>{words.status[status]}</span>
        {added !== undefined && <span class="hint">{words.lines(added, removed ?? 0)}</span>}
        {notable_by && <span class="tag">{words.notable(notable_by)}</span>}
        <button
          type="button"
          aria-expanded={isOpen.value}
          aria-label={words.show(path)}
          onClick={() => isOpen.value = !isOpen.value}
        >
          {words.diff}
        </button>
      </div>
      {isOpen.value && hunks.map(({ lines }, at) => (
        <div key={at} class="hunk">
          <label class="check">
            <input
              type="checkbox"
              checked={chosen === "all" || chosen?.has(at) === true}
              onChange={() => onPiece(at)}
            />
            {words.piece(at + 1, hunks.length, path)}
          </label>
          <Lines lines={lines} label={words.piece(at + 1, hunks.length, path)} />
        </div>
      ))}
      {isOpen.value && file.text && <Lines lines={file.text.split("\n")} label={words.show(path)} />}
      {isOpen.value && file.is_cut && <p class="hint">{words.cut}</p>}
    </li>
  );
}

function Lines({ lines, label }: { lines: string[]; label: string }) {
  return (
    <pre class="body" tabIndex={0} role="group" aria-label={label}>
      {lines.map((line, at) => <span key={at} class={CLASSES[line[0]]}>{`${line}\n`}</span>)}
    </pre>
  );
}

const CLASSES: Record<string, string> = { "+": "plus", "-": "minus", "@": "place" };
