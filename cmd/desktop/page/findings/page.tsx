import { useSignal } from "@preact/signals";
import { SEVERITIES } from "../../../../lib/event/mod.ts";
import { api } from "../../api/routes.ts";
import { hrefOf, query, setQuery } from "../../app/route.ts";
import { Table } from "../../part/common.tsx";
import { Outcome } from "../../part/outcome.tsx";
import { When } from "../../part/time.tsx";
import { useFound } from "../../store/looks.ts";
import { useLoaded, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import type { FoundFinding } from "../overview/needs.ts";
import { type Group, groupsOf, stateOf } from "../vm/findings/group.ts";

/** `ms` of the list. */
const PERIOD_MS = 30 * 24 * 3600 * 1000;
/** Rows drawn at first, and more at a time. */
const SHOWN = 100;

/** Findings of all sessions, the newest first; of one rule about one subject they are one row. */
export function FindingsPage() {
  const severity = SEVERITIES.find((each) => each === query.value.severity) ?? "info";
  const isAll = query.value.show === "all";
  const shown = useSignal(SHOWN);
  const answer = useLoaded(
    () => api.findingsAcross({ severity, since: String(Date.now() - PERIOD_MS) }),
    [severity, useFound()],
  ).value.value;
  const found = answer?.findings.filter((finding) => isAll || stateOf(finding) === "open").toReversed() ?? [];
  const groups = groupsOf(found);
  const words = text.allFindings, names = text.findings;
  return (
    <>
      <div class="head">
        <h1>{text.page.findings}</h1>
      </div>
      <p class="lead">{words.about}</p>
      <div class="filters">
        <label>
          {words.severity}{" "}
          <select
            value={severity}
            onChange={({ currentTarget }) => setQuery({ severity: currentTarget.value })}
          >
            {SEVERITIES.map((each) => <option key={each} value={each}>{words.severities[each]}</option>)}
          </select>
        </label>
        <label>
          {words.shown}{" "}
          <select
            value={isAll ? "all" : "open"}
            onChange={({ currentTarget }) => setQuery({ show: currentTarget.value })}
          >
            <option value="open">{words.states.open}</option>
            <option value="all">{words.states.all}</option>
          </select>
        </label>
        {answer && <span class="hint" role="status">{words.count(found.length)}</span>}
      </div>
      {answer === undefined && <p class="hint">{text.common.loading}</p>}
      {answer?.truncated && <p class="warning">{words.truncated}</p>}
      {answer && groups.length === 0 && <p class="empty">{words.empty}</p>}
      {groups.length > 0 && (
        <Table
          label={text.page.findings}
          head={[names.title, names.severity, words.vm, names.decision, names.subject, names.time]}
        >
          {groups.slice(0, shown.value).map((group) => (
            <FindingRow key={group.head.finding_id} group={group} />
          ))}
        </Table>
      )}
      {groups.length > shown.value && (
        <button type="button" onClick={() => shown.value += SHOWN}>{names.more}</button>
      )}
    </>
  );
}

function FindingRow({ group: { head, ids } }: { group: Group<FoundFinding> }) {
  const { title, rule_id, severity, session_id, vm_name, decision, subject, event_id, timestamp_unix_ms } =
    head;
  const vm = vms.value.find(({ id }) => id === session_id);
  const place = vm ? ["vm", vm.name] : ["session", session_id];
  const words = text.findings;
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf(...place, "findings")}>{title}</a>{" "}
        {ids.length > 1 && <span class="pill" title={words.together}>{words.times(ids.length)}</span>}
        <p class="hint">{rule_id}</p>
      </th>
      <td>
        <span class={`pill ${severity}`}>{severity}</span>
      </td>
      <td>{vm?.name ?? vm_name ?? session_id}</td>
      <td>
        <Outcome decision={decision} />
      </td>
      <td>
        <a href={`${hrefOf(...place, "timeline")}?event=${event_id}`}>{subject || event_id}</a>
      </td>
      <td>{timestamp_unix_ms ? <When at={timestamp_unix_ms} /> : text.common.none}</td>
    </tr>
  );
}
