import { useSignal } from "@preact/signals";
import { useAddressed } from "../../app/route.ts";
import { api, type CredentialView, type Login } from "../../api/routes.ts";
import { ConfirmDialog, dateOf, Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { Menu } from "../../part/menu.tsx";
import { When } from "../../part/time.tsx";
import { act, useLoaded, vmNames } from "../../store/store.ts";
import { FilterField } from "../../part/search.tsx";
import { text } from "../../text/en.ts";
import { hrefOf } from "../../app/route.ts";
import { AddDialog } from "./add.tsx";
import { Subscriptions } from "./login.tsx";

type Audit = Awaited<ReturnType<typeof api.credentialAudit>>;

/** The choice of the address that shows revoked credentials too. */
const ALL = "all";

/** Keys of the broker with their uses; no secret comes back to this page. */
export function CredentialsPage() {
  const credentials = useLoaded(api.credentials);
  const audit = useLoaded(() => api.credentialAudit({ limit: "1" }));
  const providers = useLoaded(api.credentialProviders).value.value?.providers ?? [];
  const logins = useLoaded(api.logins).value.value?.logins ?? [];
  const isAdding = useSignal(false);
  const [sought, show, chosen] = [useAddressed("q"), useAddressed("show"), useAddressed("ref")];
  const words = text.credentials;
  const all = credentials.value.value?.credentials.toReversed();
  const titleOf = (id: string) => providers.find((each) => each.id === id)?.title ?? id;
  const wanted = (sought.value ?? "").toLowerCase();
  const shown = all?.filter((credential) =>
    (show.value === ALL || !credential.revoked_at) &&
    `${nameOf(credential)} ${titleOf(credential.provider)} ${credential.hosts?.join(" ")}`.toLowerCase()
      .includes(wanted)
  );
  const selected = all?.find(({ ref }) => shortRef(ref) === chosen.value);
  const revoked = all?.filter(({ revoked_at }) => revoked_at).length ?? 0;
  return (
    <>
      <div class="head">
        <h1>{text.page.credentials}</h1>
        <button type="button" class="main" onClick={() => isAdding.value = true}>
          <Icon name="plus" /> {words.add}
        </button>
      </div>
      <p class="lead">{words.about}</p>
      {isAdding.value && (
        <AddDialog
          onAdded={(added) => {
            act(credentials.reload, words.added(nameOf(added)));
          }}
          onClose={() => isAdding.value = false}
        />
      )}
      {all === undefined && <p role="status">{text.common.loading}</p>}
      {all?.length === 0 && (
        <div class="nothing">
          <Icon name="credentials" size={24} />
          <p>{words.empty}</p>
        </div>
      )}
      {all && all.length > 0 && (
        <>
          <div class="filters">
            <FilterField
              label={words.find}
              value={sought.value ?? ""}
              onFilter={(typed) => sought.value = typed || undefined}
            />
            {revoked > 0 && (
              <label class="check">
                <input
                  type="checkbox"
                  role="switch"
                  checked={show.value === ALL}
                  onChange={({ currentTarget }) => show.value = currentTarget.checked ? ALL : undefined}
                />
                {words.withRevoked(revoked)}
              </label>
            )}
          </div>
          <Table
            label={words.table}
            head={[
              words.label,
              words.provider,
              words.kind,
              words.usedBy,
              words.lastUse,
              words.end,
              words.actions,
            ]}
          >
            {shown?.map((credential) => (
              <CredentialRow
                key={credential.ref}
                credential={credential}
                title={titleOf(credential.provider)}
                login={logins.find(({ ref }) => ref === credential.ref)}
                last={lastUse(audit.value.value, credential.ref)}
                onUses={() => chosen.value = shortRef(credential.ref)}
                onRevoked={credentials.reload}
              />
            ))}
          </Table>
          {shown?.length === 0 && <p class="empty">{words.nothing}</p>}
        </>
      )}
      {selected && (
        <Uses
          key={selected.ref}
          credential={selected}
          onClose={() => chosen.value = undefined}
        />
      )}
      <Subscriptions onChange={credentials.reload} />
    </>
  );
}

/** The last use of a credential, in unix `ms`. */
function lastUse(audit: Audit | undefined, ref: string): number | undefined {
  const uses = audit?.uses.filter(({ credential_ref }) => credential_ref === ref) ?? [];
  return uses.length === 0 ? undefined : Math.max(...uses.map(({ last_unix_ms }) => last_unix_ms));
}

/** Rows shown; the CLI shows all. */
const SHOWN = "100";

/** Uses of one credential by the broker, the newest first. */
function Uses({ credential, onClose }: { credential: CredentialView; onClose: () => void }) {
  const audit = useLoaded(() => api.credentialAudit({ ref: credential.ref, limit: SHOWN })).value.value;
  const words = text.credentials;
  const name = nameOf(credential);
  return (
    <section aria-label={words.usesOf(name)}>
      <div class="head">
        <h2>{words.usesOf(name)}</h2>
        <button type="button" class="ghost" aria-label={words.closeUses(name)} onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <p class="hint">
        <code>{credential.ref}</code>
      </p>
      {audit === undefined ? <p role="status">{text.common.loading}</p> : <Rows audit={audit} />}
    </section>
  );
}

function Rows({ audit: { rows, truncated, unreadable } }: { audit: Audit }) {
  const words = text.credentials;
  return (
    <>
      {unreadable.length > 0 && <p class="warning">{words.unreadable(unreadable.join(", "))}</p>}
      {rows.length === 0 ? <p class="hint">{words.noUses}</p> : (
        <Table
          label={words.uses}
          head={[words.time, words.vm, words.host, words.place, words.outcome, words.reason]}
        >
          {rows.map(({ session_id, event_id, timestamp_unix_ms, host, location, outcome, reason }) => {
            const vm = vmNames.value.get(session_id);
            const href = vm === undefined ? hrefOf("session", session_id) : hrefOf("vm", vm, "timeline");
            return (
              <tr key={session_id + event_id}>
                <td>
                  <a href={`${href}?event=${encodeURIComponent(event_id)}`}>
                    <When at={timestamp_unix_ms} />
                  </a>
                </td>
                <td>{vm ?? session_id.slice(0, 8)}</td>
                <td>{host ?? text.common.none}</td>
                <td>{location ?? text.common.none}</td>
                <td>
                  <span class={`pill ${outcome === "denied" || outcome === "error" ? "block" : "allow"}`}>
                    {outcome}
                  </span>
                </td>
                <td>{reason ?? text.common.none}</td>
              </tr>
            );
          })}
        </Table>
      )}
      {truncated && <p class="hint">{words.more}</p>}
    </>
  );
}

interface RowProps {
  credential: CredentialView;
  /** of its provider */
  title: string;
  /** of a subscription */
  login: Login | undefined;
  last: number | undefined;
  onUses: () => void;
  onRevoked: () => void;
}

/** One credential with its state, and what can be done to it. */
function CredentialRow({ credential, title, login, last, onUses, onRevoked }: RowProps) {
  const isAsking = useSignal(false);
  const words = text.credentials;
  const { ref, label, hosts, kind, origin, decoy, revoked_at, problem, used_by = [] } = credential;
  const name = nameOf(credential);
  const items = [
    { label: words.uses, onChoose: onUses },
    ...revoked_at ? [] : [{ label: words.revoke, isDanger: true, onChoose: () => isAsking.value = true }],
  ];
  return (
    <tr class={revoked_at ? "off" : undefined}>
      <th scope="row">
        {label ?? words.unnamed}
        <p class="hint">
          <code title={ref}>{shortRef(ref)}</code>
        </p>
      </th>
      <td>
        {title}
        {hosts && <p class="hint">{hosts.join(", ")}</p>}
      </td>
      <td>
        {decoy
          ? <span class="pill ask">{words.isDecoy}</span>
          : <span class="pill">{words.kinds[kind]}</span>}
        {origin && <p class="hint">{words.fromOrigin(origin)}</p>}
        {problem && <p class="error">{problem}</p>}
      </td>
      <td>
        {used_by.length === 0 ? text.common.none : used_by.map((vm, at) => (
          <span key={vm}>
            {at > 0 && ", "}
            <a href={hrefOf("vm", vm)}>{vm}</a>
          </span>
        ))}
      </td>
      <td>{last === undefined ? words.never : <When at={last} />}</td>
      <td>
        {revoked_at
          ? <span class="pill" title={dateOf(revoked_at)}>{words.isRevoked}</span>
          : login?.expires_at
          ? <When at={login.expires_at} />
          : <span class="hint">{words.endless}</span>}
      </td>
      <td class="actions">
        <Menu label={words.moreFor(name)} items={items}>
          <Icon name="more" />
        </Menu>
        {isAsking.value && (
          <RevokeDialog
            credential={credential}
            onClose={() => isAsking.value = false}
            onRevoked={onRevoked}
          />
        )}
      </td>
    </tr>
  );
}

function RevokeDialog(
  { credential, onClose, onRevoked }: {
    credential: CredentialView;
    onClose: () => void;
    onRevoked: () => void;
  },
) {
  const words = text.credentials;
  const { ref, kind, used_by = [] } = credential;
  const name = nameOf(credential);
  const revoke = async () => {
    onClose();
    await act(() => api.revokeCredential(ref), words.revoked(name));
    onRevoked();
  };
  return (
    <ConfirmDialog title={words.revokeTitle(name)} label={words.revoke} onClose={onClose} onConfirm={revoke}>
      <ul>
        <li>{words.revokeLoss}</li>
        <li>{used_by.length === 0 ? words.revokeUnused : words.revokeUsed(used_by.join(", "))}</li>
        <li>{kind === "subscription" ? words.revokeLogin : words.revokeProvider}</li>
      </ul>
    </ConfirmDialog>
  );
}

/** Characters of a ref shown as its short form: enough to recognise it at a glance. */
const SHORT = 12;

/** The beginning of a ref's hash. */
function shortRef(ref: string): string {
  return ref.split(":").at(-1)!.slice(0, SHORT);
}

/** The name of a credential for a person. */
function nameOf({ label, provider, ref }: Pick<CredentialView, "label" | "provider" | "ref">): string {
  return label ?? `${provider} ${shortRef(ref)}`;
}
