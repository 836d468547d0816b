import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type CredentialView } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { AddDialog } from "./add.tsx";
import { nameOf } from "./name.ts";
import { CredentialRow } from "./row.tsx";
import { Uses } from "./uses.tsx";

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
