/** Logins that agents made in VMs: a person keeps one for all VMs, or leaves it to the VM that made it. */
import { useSignal } from "@preact/signals";
import { api, type Login, type LoginOffer } from "../../api/routes.ts";
import { Dialog, FormEnd, Table } from "../../part/common.tsx";
import { When } from "../../part/time.tsx";
import { notice, textOf } from "../../store/store.ts";
import { text } from "../../text/en.ts";

interface Props {
  offers: readonly LoginOffer[];
  logins: readonly Login[];
  onKept: () => void;
}

/** Every offer, with its account, which decides a person's answer. */
export function Offers({ offers, logins, onKept }: Props) {
  const asked = useSignal<LoginOffer | undefined>(undefined);
  const words = text.credentials.offers;
  if (offers.length === 0) return null;
  const titleOf = (offer: LoginOffer) =>
    logins.find(({ login }) => login === offer.login)?.title ?? offer.login;
  return (
    <>
      <h3>{words.title}</h3>
      <p class="hint">{words.about}</p>
      <Table label={words.title} head={[words.name, words.account, words.vm, words.made, words.actions]}>
        {offers.map((offer) => (
          <tr key={offer.ref}>
            <th scope="row">{titleOf(offer)}</th>
            <td>{offer.account ?? words.unknown}</td>
            <td>{offer.vm}</td>
            <td>
              <When at={offer.made_at} />
            </td>
            <td class="actions">
              <button
                type="button"
                aria-label={words.keepOf(titleOf(offer), offer.vm)}
                onClick={() => asked.value = offer}
              >
                {words.keep}
              </button>
            </td>
          </tr>
        ))}
      </Table>
      {asked.value && (
        <KeepDialog
          offer={asked.value}
          title={titleOf(asked.value)}
          isTaken={logins.some(({ login, label, state }) =>
            login === asked.value!.login && label === undefined && state !== "logged_out"
          )}
          onKept={onKept}
          onClose={() => asked.value = undefined}
        />
      )}
    </>
  );
}

/** @param isTaken a login without a label is there: this one needs a label */
function KeepDialog(
  { offer: { login, ref, vm, account, provider }, title, isTaken, onKept, onClose }: {
    offer: LoginOffer;
    title: string;
    isTaken: boolean;
    onKept: () => void;
    onClose: () => void;
  },
) {
  const error = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const words = text.credentials.offers;
  const keep = async (event: SubmitEvent) => {
    event.preventDefault();
    const label = String(new FormData(event.target as HTMLFormElement).get("label")).trim() || undefined;
    isBusy.value = true;
    error.value = undefined;
    try {
      const { running = [] } = await api.keepLogin(login, { ref, label });
      notice.value = { text: words.kept(title, running.map(({ name }) => name)), isError: false };
      onClose();
      onKept();
    } catch (failure) {
      error.value = textOf(failure);
    }
    isBusy.value = false;
  };
  return (
    <Dialog title={words.keepTitle(title)} onClose={onClose}>
      <form onSubmit={keep} autocomplete="off">
        <ul>
          <li>{words.whose(account ?? words.unknown, vm)}</li>
          <li>{words.all(provider)}</li>
          <li>{words.renewed}</li>
        </ul>
        <label>
          {isTaken ? words.labelNeeded : words.label}
          <input name="label" required={isTaken} maxLength={128} spellcheck={false} />
        </label>
        <FormEnd
          error={error.value}
          isBusy={isBusy.value}
          submit={words.keep}
          cancel={words.leave}
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}
