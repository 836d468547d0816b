import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/routes.ts";
import { Dialog, FormEnd } from "../../part/dialog.tsx";
import { act, textOf } from "../../store/act.ts";
import { putVm } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { CommandLine } from "../../part/command.tsx";

/** The workspace in a guest. */
const WORKSPACE = "/workspace";

/** Dialog for a new VM. The service decides fields left empty. */
export function CreateDialog({ onClose }: { onClose: () => void }) {
  const profiles = useSignal<{ id: string; name: string }[]>([]);
  const error = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const words = text.create;
  useEffect(() => void act(async () => profiles.value = (await api.profiles()).profiles), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    busy.value = true;
    try {
      const form = new FormData(event.target as HTMLFormElement);
      const vm = await api.createVm(requestOf(form));
      putVm(vm);
      const url = form.get("url");
      if (url !== null) await clone(vm.id, String(url).trim());
      await act(async () => {}, text.sessions.created(vm.name));
      onClose();
    } catch (failure) {
      error.value = textOf(failure);
    }
    busy.value = false;
  };
  return (
    <Dialog title={words.title} onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          {words.name}
          <input name="name" autocomplete="off" />
        </label>
        <label>
          {words.profile}
          <select name="profile_id">
            {profiles.value.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
          </select>
        </label>
        <label>
          {words.cpus}
          <input name="cpus" type="number" min="1" max="8" />
        </label>
        <label>
          {words.ram}
          <input name="ram_mb" type="number" min="256" max="16384" />
        </label>
        <SourceFields />
        <label class="check">
          <input name="persistent" type="checkbox" checked />
          {words.persistent}
        </label>
        <FormEnd error={error.value} isBusy={busy.value} submit={words.submit} onClose={onClose} />
      </form>
    </Dialog>
  );
}

function requestOf(form: FormData) {
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string) => word(name) === undefined ? undefined : Number(word(name));
  return {
    name: word("name"),
    profile_id: word("profile_id"),
    cpus: number("cpus"),
    ram_mb: number("ram_mb"),
    persistent: form.has("persistent"),
    ...word("dir") !== undefined && { live: { dir: word("dir")! } },
  };
}

/** Clones into the workspace of a new VM, by its own git and under its rules. */
async function clone(vm: string, url: string): Promise<void> {
  const command = ["git", "clone", "--quiet", "--", url];
  const { exit_code, stderr } = await api.exec(vm, { command, cwd: WORKSPACE });
  if (exit_code !== 0) throw new Error(text.create.source.failed(stderr.trim().split("\n").at(-1) ?? ""));
}

/** Initial content of a new VM's workspace. Copies come from the CLI, which knows the files to leave out. */
const SOURCES = ["empty", "repository", "live", "copy"] as const;
type Source = typeof SOURCES[number];

/** Fields of a form: the source of the workspace, and where that is. */
function SourceFields() {
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
