/** The dialog of a new credential: a provider of the catalogue, then its key. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { api, type CredentialAdd, type CredentialView, type Provider } from "../../api/routes.ts";
import { CommandLine, Dialog, FormEnd } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { textOf, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";

interface Props {
  /** id of the provider, where it is known already */
  provider?: string;
  onAdded: (added: CredentialView) => void;
  onClose: () => void;
}

export function AddDialog({ provider, onAdded, onClose }: Props) {
  const chosen = useSignal(provider);
  const providers = useLoaded(api.credentialProviders).value.value?.providers;
  const found = providers?.find(({ id }) => id === chosen.value);
  const words = text.credentials.form;
  return (
    <Dialog title={text.credentials.add} onClose={onClose}>
      {providers === undefined
        ? <p role="status">{text.common.loading}</p>
        : found === undefined
        ? <Catalogue providers={providers} onChoose={(id) => chosen.value = id} onClose={onClose} />
        : (
          <>
            <p class="chosen-provider">
              <strong>{found.title}</strong>
              <button type="button" class="ghost" onClick={() => chosen.value = undefined}>
                {words.other}
              </button>
            </p>
            {commandFor(found) === undefined
              ? <KeyForm provider={found} onAdded={onAdded} onClose={onClose} />
              : (
                <>
                  <p>{words.byCommand}</p>
                  <CommandLine command={commandFor(found)!} />
                  <div class="buttons">
                    <button type="button" onClick={onClose}>{text.common.close}</button>
                  </div>
                </>
              )}
          </>
        )}
    </Dialog>
  );
}

/** Providers that need files or programs of this machine, which a page cannot name. */
function commandFor({ id, ssh, commits, cloud_hosts }: Provider): string | undefined {
  return ssh || commits || cloud_hosts ? `sbx credentials add ${id} --help` : undefined;
}

/** Providers by name; typing narrows them. */
function Catalogue(
  { providers, onChoose, onClose }: {
    providers: Provider[];
    onChoose: (id: string) => void;
    onClose: () => void;
  },
) {
  const typed = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const words = text.credentials.form;
  const wanted = typed.value.trim().toLowerCase();
  const found = providers.filter(({ id, title, hosts, aliases = [] }) =>
    [id, title, ...aliases, ...hosts].some((name) => name.toLowerCase().includes(wanted))
  );
  return (
    <>
      <label>
        {words.provider}
        <input
          ref={field}
          type="search"
          autocomplete="off"
          placeholder={words.find}
          value={typed.value}
          onInput={(event) => {
            // A search is no draft.
            event.stopPropagation();
            typed.value = event.currentTarget.value;
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && found.length > 0) onChoose(found[0].id);
          }}
        />
      </label>
      <ul class="catalogue" aria-label={words.catalogue}>
        {found.map(({ id, title, hosts }) => (
          <li key={id}>
            <button type="button" onClick={() => onChoose(id)}>
              <span>{title}</span>
              <span class="hint">{hosts[0] ?? words.named}</span>
            </button>
          </li>
        ))}
      </ul>
      {found.length === 0 && (
        <div role="status">
          <p class="empty">{words.unknown(typed.value)}</p>
          <CommandLine command="sbx credentials add --help" />
        </div>
      )}
      <div class="buttons">
        <button type="button" onClick={onClose}>{text.common.cancel}</button>
      </div>
    </>
  );
}

/** Fields whose problem is shown beside them. */
type Field = "secret" | "label" | "host";
type Problems = Partial<Record<Field | "form", string>>;

/**
 * The key of a provider. Its secret is read from the field once, when it is sent, and the field is emptied
 * before the answer comes: it is in no signal, no attribute and no address.
 */
function KeyForm({ provider, onAdded, onClose }: Omit<Props, "provider"> & { provider: Provider }) {
  const secret = useRef<HTMLInputElement>(null);
  const problems = useSignal<Problems>({});
  const isBusy = useSignal(false);
  const isDecoy = useSignal(false);
  const words = text.credentials.form;
  // With the form: after the paint it would take the focus, and the first letters, of the label that a quick
  // person has gone on to, into the secret.
  useLayoutEffect(() => secret.current?.focus(), []);
  const { id, hosts, named_hosts, env = [], prefixes, docs, not_yet } = provider;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const request = requestOf(id, form, secret.current!);
    problems.value = !request.decoy && request.secret === undefined
      ? { secret: words.needsSecret }
      : hosts.length === 0 && request.host === undefined && named_hosts !== undefined
      ? { host: words.needsHost }
      : {};
    if (Object.keys(problems.value).length > 0) return;
    isBusy.value = true;
    try {
      const added = await api.addCredential(request);
      onAdded(added);
      onClose();
    } catch (failure) {
      problems.value = problemOf(textOf(failure));
    }
    isBusy.value = false;
  };
  return (
    <form onSubmit={submit} autocomplete="off" noValidate>
      <label>
        {words.secret}
        <input
          ref={secret}
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder={prefixes.length > 0 ? `${prefixes.at(-1)}…` : undefined}
          aria-describedby="kept secret-problem"
          aria-invalid={problems.value.secret !== undefined || undefined}
        />
      </label>
      <Problem of="secret" problems={problems.value} />
      <p class="hint" id="kept">
        <Icon name="lock" size={12} /> {words.kept}
      </p>
      {named_hosts !== undefined && (
        <>
          <label>
            {hosts.length === 0 ? words.hostNeeded : words.host}
            <input
              name="host"
              autocomplete="off"
              placeholder={named_hosts[0] === "*" ? "api.example.com" : named_hosts[0]}
              aria-describedby="host-problem"
              aria-invalid={problems.value.host !== undefined || undefined}
            />
          </label>
          <Problem of="host" problems={problems.value} />
        </>
      )}
      <label>
        {words.label}
        <input
          name="label"
          autocomplete="off"
          maxLength={128}
          placeholder={words.labelExample}
          aria-describedby="label-problem"
          aria-invalid={problems.value.label !== undefined || undefined}
        />
      </label>
      <Problem of="label" problems={problems.value} />
      <label class="check">
        <input
          name="decoy"
          type="checkbox"
          checked={isDecoy.value}
          onChange={({ currentTarget }) => isDecoy.value = currentTarget.checked}
        />
        {words.decoy}
      </label>
      <dl class="terms">
        {hosts.length > 0 && (
          <>
            <dt>{words.goesTo}</dt>
            <dd>{shortened(hosts)}</dd>
          </>
        )}
        {env.length > 0 && (
          <>
            <dt>{words.env}</dt>
            <dd>{shortened(env)}</dd>
          </>
        )}
      </dl>
      {not_yet && <p class="warning">{not_yet}</p>}
      {docs && (
        <p>
          <a href={docs} target="_blank" rel="noreferrer">{words.docs}</a>
        </p>
      )}
      <FormEnd error={problems.value.form} isBusy={isBusy.value} submit={words.submit} onClose={onClose} />
    </form>
  );
}

function Problem({ of, problems }: { of: Field; problems: Problems }) {
  const problem = problems[of];
  return <div id={`${of}-problem`} role="alert">{problem && <p class="error">{problem}</p>}</div>;
}

/** Names that a person reads at a glance. */
const SHOWN = 3;

function shortened(names: string[]): string {
  const rest = names.length - SHOWN;
  const shown = names.slice(0, SHOWN).join(", ");
  return rest > 0 ? text.credentials.andMore(shown, rest) : shown;
}

/** Takes the secret out of its field, which has no name: no form data has it. */
function requestOf(provider: string, form: FormData, field: HTMLInputElement): CredentialAdd {
  const secret = field.value || undefined;
  field.value = "";
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  return {
    provider,
    secret,
    label: word("label"),
    host: word("host"),
    decoy: form.has("decoy") || undefined,
  };
}

/** The field that an error is about, as its first words name it. */
function problemOf(message: string): Problems {
  const field = (["label", "host", "secret"] as const).find((name) =>
    new RegExp(`\\b${name === "secret" ? "secret|key" : name}\\b`, "i").test(message)
  );
  return { [field ?? "form"]: message };
}
