import { useSignal } from "@preact/signals";
import { settings } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { Nodes } from "./nodes.tsx";
import { discard, save, staged } from "./staged.ts";
import { search } from "./tree.ts";

/** The settings, drawn from `GET /settings/info` alone: this page knows no setting. */
export function SettingsPage() {
  const words = text.settings;
  const sought = useSignal("");
  if (settings.value === undefined) return <p>{text.common.loading}</p>;
  const { tree, issues } = settings.value;
  const found = search(tree, sought.value);
  const count = Object.keys(staged.value).length;
  return (
    <>
      <div class="head">
        <h1>{text.page.settings}</h1>
        <input
          type="search"
          aria-label={words.search}
          placeholder={words.search}
          value={sought.value}
          onInput={({ currentTarget }) => sought.value = currentTarget.value}
        />
      </div>
      {issues.length > 0 && (
        <section aria-label={words.issues}>
          <h2>{words.issues}</h2>
          <ul class="issues">
            {issues.map(({ id, severity, message }) => (
              <li key={id + message} class={severity}>{`${id}: ${message}`}</li>
            ))}
          </ul>
        </section>
      )}
      {found.length === 0 ? <p class="empty">{words.nothing}</p> : <Nodes nodes={found} depth={2} />}
      {count > 0 && (
        <div class="batch">
          <button type="button" class="main" onClick={save}>{words.save(count)}</button>
          <button type="button" onClick={discard}>{words.discard}</button>
        </div>
      )}
    </>
  );
}
