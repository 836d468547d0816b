import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { api, type RuleDraft } from "../../api/routes.ts";
import type { Mark } from "../../part/code/editor.ts";
import { textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** `ms` after the last key before the linter is asked. */
const WAIT_MS = 300;

/** Shows the linter's remarks on a draft. */
export interface Remarks {
  list: ReadonlySignal<Mark[] | undefined>;
  /** Asks the linter about a draft, once its author pauses. */
  check: (read: () => RuleDraft) => void;
}

/** The linter's remarks on a draft of a profile, updated as it is edited. */
export function useRemarks(profile: string): Remarks {
  const list = useSignal<Mark[] | undefined>(undefined);
  const timer = useRef(0);
  const round = useRef(0);
  const run = async (read: () => RuleDraft) => {
    const mine = ++round.current;
    let found: Mark[];
    try {
      found = (await api.tryRule(profile, read())).lints;
    } catch (error) {
      const message = error instanceof SyntaxError ? text.rules.editor.notJson : textOf(error);
      found = [{ severity: "error", message }];
    }
    if (mine === round.current) list.value = found;
  };
  const check = (read: () => RuleDraft) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => run(read), WAIT_MS) as unknown as number;
  };
  return { list, check };
}

/** The remarks as a list. */
export function RemarkList({ remarks }: { remarks: Mark[] | undefined }) {
  return (
    <section aria-label={text.rules.lints} aria-live="polite">
      {remarks?.length === 0 && <p class="hint">{text.rules.noLints}</p>}
      {remarks && remarks.length > 0 && (
        <ul class="issues">
          {remarks.map(({ severity, message }) => <li key={message} class={severity}>{message}</li>)}
        </ul>
      )}
    </section>
  );
}
