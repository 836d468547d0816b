/** One changed file of a VM: its diff, to be taken whole or piece by piece. */
import { useSignal } from "@preact/signals";
import type { WorkView } from "../../../api/routes.ts";
import { text } from "../../../text/en.ts";
import { numbered } from "./lines.ts";

export type File = WorkView["units"][number]["files"][number];

interface Props {
  file: File;
  chosen: "all" | ReadonlySet<number> | undefined;
  isViewed: boolean;
  onViewed: (isViewed: boolean) => void;
  onFile: (isChosen: boolean) => void;
  onPiece: (piece: number) => void;
}

export function WorkFile({ file, chosen, isViewed, onViewed, onFile, onPiece }: Props) {
  const isOpen = useSignal(false);
  const words = text.work;
  const { path, status, added, removed, notable_by, hunks } = file;
  const view = (isNow: boolean) => {
    onViewed(isNow);
    if (isNow) isOpen.value = false;
  };
  const hasDiff = hunks.length > 0 || !!file.text;
  return (
    <li class={isViewed ? "change viewed" : "change"}>
      <div class="change-head">
        <input
          type="checkbox"
          aria-label={words.takeFile(path)}
          checked={chosen === "all"}
          indeterminate={chosen instanceof Set}
          onChange={({ currentTarget }) => onFile(currentTarget.checked)}
        />
        <button
          type="button"
          class="change-name"
          aria-expanded={isOpen.value}
          aria-label={words.show(path)}
          onClick={() => isOpen.value = !isOpen.value}
        >
          <code>{path}</code>
        </button>
        {notable_by && <span class="pill flagged">{words.notable(notable_by)}</span>}
        <span class={`pill change-${status}`}>{words.status[status]}</span>
        {added !== undefined && <Extent added={added} removed={removed ?? 0} />}
        <label class="check hint">
          <input
            type="checkbox"
            aria-label={words.viewedOf(path)}
            checked={isViewed}
            onChange={({ currentTarget }) => view(currentTarget.checked)}
          />
          {words.viewed}
        </label>
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
          <Diff lines={lines} label={words.piece(at + 1, hunks.length, path)} />
        </div>
      ))}
      {isOpen.value && file.text && <Diff lines={file.text.split("\n")} label={words.show(path)} />}
      {isOpen.value && file.is_cut && <p class="hint">{words.cut}</p>}
      {isOpen.value && !hasDiff && !file.is_cut && <p class="hint">{words.noText}</p>}
    </li>
  );
}

/** Blocks of the bar, and the lines that fill all of them. */
const BLOCKS = 5, FULL = 100;

/** Lines added and removed, in numbers and as a bar. */
function Extent({ added, removed }: { added: number; removed: number }) {
  const filled = Math.min(BLOCKS, Math.ceil((added + removed) / FULL * BLOCKS));
  const plus = Math.round(filled * added / Math.max(1, added + removed));
  return (
    <span class="extent">
      <span class="plus">+{added}</span> <span class="minus">−{removed}</span>
      <svg width="48" height="8" aria-hidden="true">
        {Array.from({ length: BLOCKS }, (_, at) => (
          <rect
            key={at}
            x={at * 10}
            width="8"
            height="8"
            class={at < plus ? "plus" : at < filled ? "minus" : "same"}
          />
        ))}
      </svg>
    </span>
  );
}

/** Lines that are drawn before a person asks for all of them. */
const LINES_SHOWN = 400;

function Diff({ lines, label }: { lines: string[]; label: string }) {
  const isWhole = useSignal(false);
  const all = numbered(lines);
  const shown = isWhole.value ? all : all.slice(0, LINES_SHOWN);
  const words = text.work;
  return (
    <>
      <div class="diff" tabIndex={0} role="group" aria-label={label}>
        <table>
          <tbody>
            {shown.map(({ kind, before, after, text: line }, at) => (
              <tr key={at} class={kind}>
                <td class="number" data-number={before} />
                <td class="number" data-number={after} />
                <td class="line">
                  <span class="sign">{SIGNS[kind]}</span>
                  {line}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < all.length && (
        <button type="button" class="small" onClick={() => isWhole.value = true}>
          {words.allLines(all.length)}
        </button>
      )}
    </>
  );
}

const SIGNS = { plus: "+", minus: "-", same: " ", place: "" };
