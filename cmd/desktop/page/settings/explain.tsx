import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Explanation } from "../../api/routes.ts";
import { textOf } from "../../store/act.ts";
import { settings } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import type { Leaf } from "./tree.ts";

/** Why a setting has its value: each layer with its file and line, the winner, and what switches it. */
export function Explain({ leaf }: { leaf: Leaf }) {
  const isOpen = useSignal(false);
  const words = text.settings;
  const id = `${leaf.id}-why`;
  return (
    <div class="explain">
      <button
        type="button"
        class="small"
        aria-expanded={isOpen.value}
        aria-controls={id}
        aria-label={words.explainOf(leaf.name)}
        onClick={() => isOpen.value = !isOpen.value}
      >
        {words.explain}
      </button>
      <div id={id} class="explanation">{isOpen.value && <Layers id={leaf.id} />}</div>
    </div>
  );
}

function Layers({ id }: { id: string }) {
  const answer = useSignal<Explanation | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  // An answer of before another change would explain what is no more.
  useEffect(() => {
    api.explainSetting(id).then((found) => answer.value = found, (failure) => error.value = textOf(failure));
  }, [id, settings.value]);
  const words = text.settings;
  if (error.value) return <p class="error" role="alert">{error.value}</p>;
  if (answer.value === undefined) return <p role="status">{text.common.loading}</p>;
  const { form, layers, lock, enabled_by } = answer.value;
  return (
    <>
      <p class="hint">{words.form(id, form)}</p>
      <table aria-label={words.layers}>
        <thead>
          <tr>
            <th scope="col">{words.layer}</th>
            <th scope="col">{words.value}</th>
            <th scope="col">{words.place}</th>
          </tr>
        </thead>
        <tbody>
          {layers.map(({ layer, value, file, line, wins }) => (
            <tr key={layer} class={wins ? "wins" : undefined}>
              <th scope="row">
                {words.layerName[layer]} {wins && <span class="hint">{words.wins}</span>}
              </th>
              <td>{value === undefined ? text.common.none : <code>{JSON.stringify(value)}</code>}</td>
              <td>{placeOf(file, line)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {lock && <p class="lock">{words.lockedAt(lock)}</p>}
      {enabled_by.map((each) => (
        <p key={each.id} class="hint">
          {words.switchedBy(each.id, each.enabled, placeOf(each.file, each.line))}
        </p>
      ))}
    </>
  );
}

function placeOf(file: string | undefined, line: number | undefined): string {
  if (file === undefined) return text.common.none;
  return line === undefined ? file : `${file}:${line}`;
}
