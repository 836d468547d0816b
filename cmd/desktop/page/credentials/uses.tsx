import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/routes.ts";
import { dateOf } from "../../part/time.ts";
import { act } from "../../store/act.ts";
import { vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";

type Audit = Awaited<ReturnType<typeof api.credentialAudit>>;

/** Rows shown; the CLI shows all. */
const SHOWN = "100";

/** Uses of one credential by the broker, the newest first. */
export function Uses({ of, credential }: { of: string; credential: string }) {
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
