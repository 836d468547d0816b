/** The dialog of a new VM: its profile, its sizes, its workspace and its keys. */
import { type Signal, useSignal } from "@preact/signals";
import { api } from "../../api/routes.ts";
import { CommandLine, Dialog, FormEnd } from "../../part/common.tsx";
import { act, putVm, textOf, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";

/** The workspace in a guest. */
const WORKSPACE = "/workspace";

/** Dialog for a new VM. The service decides fields left empty. */
export function CreateDialog({ onClose }: { onClose: () => void }) {
  const chosen = useSignal<string | undefined>(undefined);
  const source = useSignal<Source>("empty");
  const error = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const words = text.create;
  const profiles = useLoaded(api.profiles).value.value?.profiles;
  const assets = useLoaded(api.status).value.value?.assets;
  if (profiles === undefined || assets === undefined) {
    return (
      <Dialog title={words.title} onClose={onClose}>
        <p>{text.common.loading}</p>
      </Dialog>
    );
  }
  const ready = new Set(assets.filter((each) => each.ready).map(({ profile_id }) => profile_id));
  // The first that can boot: a first Create does not fail.
  const profile = chosen.value ?? profiles.find(({ id }) => ready.has(id))?.id ?? profiles[0]?.id;
  const names = profiles.map(({ name }) => name);
  const labelOf = ({ id, name }: typeof profiles[number]) => {
    const label = names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (${id})`;
    return ready.has(id) ? label : words.noImage(label);
  };
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
          <select
            name="profile_id"
            value={profile}
            onChange={({ currentTarget }) => chosen.value = currentTarget.value}
          >
            {profiles.map((each) => <option key={each.id} value={each.id}>{labelOf(each)}</option>)}
          </select>
        </label>
        {profile !== undefined && !ready.has(profile) && (
          <div role="status">
            <p class="warning">{words.needsImage}</p>
            <CommandLine command={words.imageCommand(profile)} />
          </div>
        )}
        <label>
          {words.cpus}
          <input name="cpus" type="number" min="1" max="8" />
        </label>
        <label>
          {words.ram}
          <input name="ram_mb" type="number" min="256" max="262144" />
        </label>
        <SourceFields source={source} />
        <KeyFields />
        <label class="check">
          <input name="persistent" type="checkbox" checked />
          {words.persistent}
        </label>
        {source.value === "copy"
          // The command makes the VM: without it there would be an empty one.
          ? (
            <div class="buttons">
              <button type="button" onClick={onClose}>{text.common.close}</button>
            </div>
          )
          : <FormEnd error={error.value} isBusy={busy.value} submit={words.submit} onClose={onClose} />}
      </form>
    </Dialog>
  );
}

function requestOf(form: FormData) {
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const credentials = Object.fromEntries(
    [...form].flatMap(([name, label]) =>
      name.startsWith(KEY_FIELD) && label !== "" ? [[name.slice(KEY_FIELD.length), String(label)]] : []
    ),
  );
  const number = (name: string) => word(name) === undefined ? undefined : Number(word(name));
  return {
    name: word("name"),
    profile_id: word("profile_id"),
    cpus: number("cpus"),
    ram_mb: number("ram_mb"),
    persistent: form.has("persistent"),
    ...Object.keys(credentials).length > 0 && { credentials },
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
function SourceFields({ source }: { source: Signal<Source> }) {
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

/** Beginning of the names of fields with a provider's key. */
const KEY_FIELD = "key ";

/** The key that the VM uses, for each provider with several. */
function KeyFields() {
  const all = useLoaded(api.credentials).value.value?.credentials ?? [];
  const usable = all.filter(({ decoy, revoked_at, label }) => !decoy && !revoked_at && label !== undefined);
  const words = text.create;
  return (
    <>
      {[...Map.groupBy(usable, ({ provider }) => provider)].map(([provider, keys]) => (
        <label key={provider}>
          {words.keyOf(provider)}
          <select name={`${KEY_FIELD}${provider}`}>
            <option value="">{words.lastKey}</option>
            {keys.map(({ ref, label }) => <option key={ref} value={label}>{label}</option>)}
          </select>
        </label>
      ))}
    </>
  );
}
