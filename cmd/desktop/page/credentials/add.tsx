import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { allOf } from "../../../../lib/base/list/mod.ts";
import { api, type CredentialAdd } from "../../api/routes.ts";
import { Dialog, FormEnd } from "../../part/dialog.tsx";
import { act, textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { nameOf } from "./name.ts";

/** Providers in the order of the list. */
const PROVIDERS = allOf<CredentialAdd["provider"]>()("anthropic", "openai", "google", "github", "mcp");

/**
 * A new credential. Its secret is read from the field once, when it is sent, and the field is emptied before
 * the answer comes: it is in no signal, no attribute and no address.
 */
export function AddDialog({ onAdded, onClose }: { onAdded: () => void; onClose: () => void }) {
  const secret = useRef<HTMLInputElement>(null);
  const error = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const words = text.credentials.form;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const request = requestOf(new FormData(event.target as HTMLFormElement), secret.current!);
    if (!request.decoy && request.secret === undefined) return void (error.value = words.needsSecret);
    busy.value = true;
    try {
      const added = await api.addCredential(request);
      await act(async () => {}, text.credentials.added(nameOf(added)));
      onAdded();
      onClose();
    } catch (failure) {
      error.value = textOf(failure);
    }
    busy.value = false;
  };
  return (
    <Dialog title={text.credentials.add} onClose={onClose}>
      <form onSubmit={submit} autocomplete="off">
        <label>
          {words.provider}
          <select name="provider">
            {PROVIDERS.map((provider) => <option key={provider}>{provider}</option>)}
          </select>
        </label>
        <label>
          {words.secret}
          <input ref={secret} type="password" autocomplete="off" spellcheck={false} aria-describedby="kept" />
        </label>
        <p class="hint" id="kept">{words.kept}</p>
        <label>
          {words.label}
          <input name="label" autocomplete="off" maxLength={128} />
        </label>
        <label>
          {words.host}
          <input name="host" autocomplete="off" />
        </label>
        <label class="check">
          <input name="decoy" type="checkbox" />
          {words.decoy}
        </label>
        <FormEnd error={error.value} isBusy={busy.value} submit={words.submit} onClose={onClose} />
      </form>
    </Dialog>
  );
}

/** Takes the secret out of its field, which has no name: no form data has it. */
function requestOf(form: FormData, field: HTMLInputElement): CredentialAdd {
  const secret = field.value || undefined;
  field.value = "";
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  return {
    provider: form.get("provider") as CredentialAdd["provider"],
    secret,
    label: word("label"),
    host: word("host"),
    decoy: form.has("decoy") || undefined,
  };
}
