import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type SystemStatus } from "../../api/routes.ts";
import { act, connection } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";

/** The facts of `sbx status`, and the first steps of a new home. */
export function StatusPage() {
  const status = useSignal<SystemStatus | undefined>(undefined);
  const isOnline = connection.value === "online";
  useEffect(() => {
    if (isOnline) act(async () => status.value = await api.status());
  }, [isOnline]);
  return (
    <>
      <h1>{text.page.status}</h1>
      {status.value === undefined ? <p>{text.common.loading}</p> : <Report status={status.value} />}
      <FirstSteps />
    </>
  );
}

function Report({ status }: { status: SystemStatus }) {
  const { issues, version, host, hypervisor, vms, assets, corp } = status;
  const words = text.status;
  return (
    <>
      {issues.length === 0 ? <p>{words.fine}</p> : (
        <>
          <h2>{words.issues}</h2>
          <ul class="issues">{issues.map((issue) => <li key={issue}>{issue}</li>)}</ul>
        </>
      )}
      <dl>
        <dt>{words.version}</dt>
        <dd>{version}</dd>
        <dt>{words.host}</dt>
        <dd>{`${host.os} ${host.arch}, ${host.cpus}`}</dd>
        <dt>{words.hypervisor}</dt>
        <dd>{`${hypervisor.name}, ${hypervisor.accelerator}: ${hypervisor.reason}`}</dd>
        {Object.entries(hypervisor.missing).map(([feature, lack]) => (
          <div key={feature}>
            <dt>{words.without(feature)}</dt>
            <dd>{lack}</dd>
          </div>
        ))}
        <dt>{words.vms}</dt>
        <dd>{words.running(vms.running, vms.total)}</dd>
        <dt>{words.assets}</dt>
        {assets.map(({ profile_id, ready, missing }) => (
          <dd key={profile_id}>{`${profile_id}: ${ready ? words.ready : missing.join(", ")}`}</dd>
        ))}
        <dt>{words.corp}</dt>
        <dd>{corp}</dd>
      </dl>
    </>
  );
}
