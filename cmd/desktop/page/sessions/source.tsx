import { useSignal } from "@preact/signals";
import { CommandLine } from "../../part/command.tsx";
import { text } from "../../text/en.ts";

/** What a new VM's workspace begins with; a copy of a folder is brought in by the CLI, which knows what to leave out. */
export const SOURCES = ["empty", "repository", "live", "copy"] as const;
type Source = typeof SOURCES[number];

/** Fields of a form: the source of the workspace, and where that is. */
export function SourceFields() {
  const source = useSignal<Source>("empty");
  const words = text.create.source;
  return (
    <>
      <label>
        {words.title}
        <select
          name="source"
          onChange={({ currentTarget }) => source.value = currentTarget.value as Source}
        >
          {SOURCES.map((each) => <option key={each} value={each}>{words.name[each]}</option>)}
        </select>
      </label>
      {source.value === "repository" && (
        <label>
          {words.url}
          <input name="url" type="url" required placeholder="https://" autocomplete="off" />
          <span class="hint">{words.urlHint}</span>
        </label>
      )}
      {source.value === "live" && (
        <label>
          {words.dir}
          <input name="dir" required pattern="/.+" placeholder="/" autocomplete="off" />
          <span class="hint">{words.dirHint}</span>
        </label>
      )}
      {source.value === "copy" && (
        <div>
          <p class="hint">{words.copyHint}</p>
          <CommandLine command={words.copyCommand} />
        </div>
      )}
    </>
  );
}
