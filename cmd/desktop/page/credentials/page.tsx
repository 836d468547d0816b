import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api, type CredentialAdd, type CredentialView } from "../../api/routes.ts";
import { text } from "../../text/en.ts";
import { act, textOf, vmNames } from "../../store/store.ts";
import { dateOf, Dialog, FormEnd } from "../../part/common.tsx";

/** Refs of the broker with their uses; no secret comes back to this page. */
export function CredentialsPage() {
  const credentials = useSignal<CredentialView[] | undefined>(undefined);
  const adding = useSignal(false);
  const chosen = useSignal<CredentialView | undefined>(undefined);
  const read = () => act(async () => credentials.value = (await api.credentials()).credentials.toReversed());
  useEffect(() => void read(), []);
  const words = text.credentials;
  return (
    <>
      <div class="head">
        <h1>{text.page.credentials}</h1>
        <button type="button" class="main" onClick={() => adding.value = true}>{words.add}</button>
      </div>
      {adding.value && <AddDialog onAdded={read} onClose={() => adding.value = false} />}
      {credentials.value?.length === 0 && <p class="empty">{words.empty}</p>}
      {credentials.value && credentials.value.length > 0 && (
        <table aria-label={words.table}>
          <thead>
            <tr>
              <th scope="col">{words.label}</th>
              <th scope="col">{words.provider}</th>
              <th scope="col">{words.hosts}</th>
              <th scope="col">{words.ref}</th>
              <th scope="col">{words.since}</th>
              <th scope="col">{words.state}</th>
              <th scope="col">{words.actions}</th>
            </tr>
          </thead>
          <tbody>
            {credentials.value.map((credential) => (
              <CredentialRow
                key={credential.ref}
                credential={credential}
                isChosen={chosen.value?.ref === credential.ref}
                onUses={() => chosen.value = credential}
                onRevoked={read}
              />
            ))}
          </tbody>
        </table>
      )}
      {chosen.value && (
        <Uses
          key={chosen.value.ref}
          of={nameOf(chosen.value)}
          credential={chosen.value.ref}
        />
      )}
    </>
  );
}

type Audit = Awaited<ReturnType<typeof api.credentialAudit>>;

/** Rows shown; the CLI shows all. */
const SHOWN = "100";

/** Uses of one credential by the broker, the newest first. */
function Uses({ of, credential }: { of: string; credential: string }) {
  const audit = useSignal<Audit | undefined>(undefined);
  useEffect(() => {
    act(async () => audit.value = await api.credentialAudit({ ref: credential, limit: SHOWN }));
  }, [credential]);
  const words = text.credentials;
  return (
    <section aria-label={words.usesOf(of)}>
      <h2>{words.usesOf(of)}</h2>
      {audit.value === undefined ? <p>{text.common.loading}</p> : <Rows audit={audit.value} />}
    </section>
  );
}

function Rows({ audit: { rows, truncated, unreadable } }: { audit: Audit }) {
  const words = text.credentials;
  return (
    <>
      {unreadable.length > 0 && <p class="warning">{words.unreadable(unreadable.join(", "))}</p>}
      {rows.length === 0 ? <p class="hint">{words.noUses}</p> : (
        <table aria-label={words.uses}>
          <thead>
            <tr>
              <th scope="col">{words.time}</th>
              <th scope="col">{words.vm}</th>
              <th scope="col">{words.host}</th>
              <th scope="col">{words.place}</th>
              <th scope="col">{words.outcome}</th>
              <th scope="col">{words.reason}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ session_id, event_id, timestamp_unix_ms, host, location, outcome, reason }) => (
              <tr key={session_id + event_id}>
                <td>{dateOf(timestamp_unix_ms)}</td>
                <td>{vmNames.value.get(session_id) ?? session_id}</td>
                <td>{host ?? text.common.none}</td>
                <td>{location ?? text.common.none}</td>
                <td>{outcome}</td>
                <td>{reason ?? text.common.none}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {truncated && <p class="hint">{words.more}</p>}
    </>
  );
}

interface Props {
  credential: CredentialView;
  isChosen: boolean;
  onUses: () => void;
  onRevoked: () => void;
}

/** One ref with its state, and what can be done to it. */
function CredentialRow({ credential, isChosen, onUses, onRevoked }: Props) {
  const asking = useSignal(false);
  const words = text.credentials;
  const { ref, label, provider, hosts, created_at, decoy, revoked_at } = credential;
  const name = nameOf(credential);
  const revoke = async () => {
    asking.value = false;
    await act(() => api.revokeCredential(ref), words.revoked(name));
    onRevoked();
  };
  return (
    <tr>
      <th scope="row">{label ?? words.unnamed}</th>
      <td>{provider}</td>
      <td>{hosts?.join(", ") ?? text.common.none}</td>
      <td>
        <code title={ref}>{shortRef(ref)}</code>
      </td>
      <td>{dateOf(created_at)}</td>
      <td>
        {revoked_at ? words.isRevoked(dateOf(revoked_at)) : words.inUse}
        {decoy && <span class="tag">{words.isDecoy}</span>}
      </td>
      <td class="actions">
        <button type="button" aria-label={words.usesOf(name)} aria-pressed={isChosen} onClick={onUses}>
          {words.uses}
        </button>
        {!revoked_at && (
          <button
            type="button"
            class="danger"
            aria-label={words.revokeOf(name)}
            onClick={() => asking.value = true}
          >
            {words.revoke}
          </button>
        )}
        {asking.value && (
          <Dialog title={words.revokeTitle(name)} onClose={() => asking.value = false}>
            <p>{words.revokeLoss}</p>
            <div class="buttons">
              <button type="button" onClick={() => asking.value = false}>{text.common.cancel}</button>
              <button type="button" class="danger" onClick={revoke}>{words.revoke}</button>
            </div>
          </Dialog>
        )}
      </td>
    </tr>
  );
}

/** Characters of a ref shown as its short form: enough to recognise it at a glance. */
const SHORT = 12;

/** The beginning of a ref's hash. */
function shortRef(ref: string): string {
  return ref.split(":").at(-1)!.slice(0, SHORT);
}

/** The name of a credential for a person. */
function nameOf({ label, provider, ref }: CredentialView): string {
  return label ?? `${provider} ${shortRef(ref)}`;
}

/**
 * A new credential. Its secret is read from the field once, when it is sent, and the field is emptied before
 * the answer comes: it is in no signal, no attribute and no address.
 */
function AddDialog({ onAdded, onClose }: { onAdded: () => void; onClose: () => void }) {
  const secret = useRef<HTMLInputElement>(null);
  const error = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const providers = useSignal<{ id: string; title: string }[]>([]);
  useEffect(() => {
    act(async () => providers.value = (await api.credentialProviders()).providers);
  }, []);
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
            {providers.value.map(({ id, title }) => <option key={id} value={id}>{title}</option>)}
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
    provider: word("provider") ?? "",
    secret,
    label: word("label"),
    host: word("host"),
    decoy: form.has("decoy") || undefined,
  };
}
