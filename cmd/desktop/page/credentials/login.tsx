/** Logins of subscriptions: the host logs in, and VMs get a reference. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Login, type LoginWaiting } from "../../api/routes.ts";
import { CommandLine, ConfirmButton, Dialog, Table } from "../../part/common.tsx";
import { When } from "../../part/time.tsx";
import { act, textOf, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { Offers } from "./offers.tsx";

/** Every subscription that sbx can log in to. */
export function Subscriptions({ onChange }: { onChange: () => void }) {
  const logins = useLoaded(api.logins);
  const asked = useSignal<Login | undefined>(undefined);
  const words = text.credentials.logins;
  const changed = () => {
    logins.reload();
    onChange();
  };
  if (logins.value.value === undefined || logins.value.value.logins.length === 0) return null;
  return (
    <section aria-labelledby="subscriptions">
      <h2 id="subscriptions">{words.title}</h2>
      <p class="hint">{words.about}</p>
      <Table label={words.title} head={[words.name, words.state, words.account, words.end, words.actions]}>
        {logins.value.value.logins.map((login) => {
          const { title, label, state, account, expires_at, problem } = login;
          return (
            <tr key={`${login.login} ${label ?? ""}`}>
              <th scope="row">
                {title}
                {label && <p class="hint">{label}</p>}
              </th>
              <td>
                <span class={`pill ${PILLS[state]}`}>{words.states[state]}</span>
                {problem && <p class="error">{problem}</p>}
              </td>
              <td>{account ?? text.common.none}</td>
              <td>{expires_at ? <When at={expires_at} /> : text.common.none}</td>
              <td class="actions">
                <button
                  type="button"
                  aria-label={words.loginTo(title)}
                  onClick={() => asked.value = login}
                >
                  {state === "logged_in" ? words.again : words.login}
                </button>
                {state === "logged_in" && (
                  <ConfirmButton
                    label={words.logout}
                    question={words.logoutTitle(title)}
                    loss={words.logoutLoss}
                    onConfirm={async () => {
                      if (await act(() => api.logout(login.login, label), words.loggedOut(title))) changed();
                    }}
                  />
                )}
              </td>
            </tr>
          );
        })}
      </Table>
      <Offers offers={logins.value.value.offers} logins={logins.value.value.logins} onKept={changed} />
      {asked.value && (
        <LoginDialog
          login={asked.value}
          onDone={changed}
          onClose={() => asked.value = undefined}
        />
      )}
    </section>
  );
}

const PILLS: Record<Login["state"], string> = { logged_in: "allow", logged_out: "", over: "ask" };

/** Where a person goes to log in; it closes once the provider has answered. */
export function LoginDialog(
  { login, onDone, onClose }: { login: Login; onDone: () => void; onClose: () => void },
) {
  const waiting = useSignal<LoginWaiting | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const words = text.credentials.logins;
  useEffect(() => {
    let isGone = false;
    const run = async () => {
      try {
        const begun = await api.beginLogin(login.login, { label: login.label });
        waiting.value = begun;
        // Each answer comes at its end, or after some seconds.
        while (!isGone) {
          const { waiting: isWaiting } = await api.loginState(login.login, login.label, begun.attempt);
          if (isWaiting) continue;
          onDone();
          // The dialog may be another login's by now.
          if (!isGone) onClose();
          return;
        }
      } catch (failure) {
        if (!isGone) error.value = textOf(failure);
      }
    };
    run();
    return () => isGone = true;
  }, []);
  const paste = async (event: SubmitEvent) => {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem("code") as HTMLInputElement;
    const code = field.value.trim();
    field.value = "";
    error.value = undefined;
    await api.loginCode(login.login, { label: login.label, code, attempt: waiting.value!.attempt })
      .catch((failure) => error.value = textOf(failure));
  };
  return (
    <Dialog title={words.loginTo(login.title)} onClose={onClose}>
      {waiting.value === undefined ? !error.value && <p role="status">{text.common.loading}</p> : (
        <>
          <p>
            <a class="button" href={waiting.value.url} target="_blank" rel="noreferrer">
              {words.open}
            </a>
          </p>
          {waiting.value.user_code && (
            <>
              <p>{words.typeCode}</p>
              <CommandLine command={waiting.value.user_code} />
            </>
          )}
          {waiting.value.way === "paste" && (
            <form onSubmit={paste}>
              <label>
                {words.code}
                <input name="code" required autocomplete="off" spellcheck={false} />
              </label>
              <button type="submit" class="main">{words.send}</button>
            </form>
          )}
          <p class="hint" role="status">{words.waits}</p>
        </>
      )}
      {error.value && <p class="error" role="alert">{error.value}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>{text.common.cancel}</button>
      </div>
    </Dialog>
  );
}
