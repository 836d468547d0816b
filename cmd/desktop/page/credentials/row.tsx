import { useSignal } from "@preact/signals";
import { api, type CredentialView } from "../../api/routes.ts";
import { Dialog } from "../../part/dialog.tsx";
import { dateOf } from "../../part/time.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { nameOf, shortRef } from "./name.ts";

interface Props {
  credential: CredentialView;
  isChosen: boolean;
  onUses: () => void;
  onRevoked: () => void;
}

/** One ref with its state, and what can be done to it. */
export function CredentialRow({ credential, isChosen, onUses, onRevoked }: Props) {
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
