/** Findings of a session for triage: their decisions, their life, and exceptions from them. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type ListedFinding } from "../../../api/routes.ts";
import { hrefOf, query, route, setQuery } from "../../../app/route.ts";
import { Table } from "../../../part/common.tsx";
import { Outcome } from "../../../part/outcome.tsx";
import { When } from "../../../part/time.tsx";
import { onMessage } from "../../../store/live.ts";
import { act, connection } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import type { Recorded } from "../timeline/view.tsx";
import { changeFindings, CloseDialog, ExceptDialog } from "./dialogs.tsx";
import { Exceptions } from "./exceptions.tsx";
import { type Group, groupsOf, stateOf, STATES } from "./group.ts";

/** Findings of a session, the newest first. */
export function FindingsView({ vm }: { vm: Recorded }) {
  const all = useSignal<ListedFinding[] | undefined>(undefined);
  const older = useSignal<string | undefined>(undefined);
  /** counts changes of the exceptions */
  const changes = useSignal(0);
  const isOnline = connection.value === "online";
  const wanted = query.value.state ?? "open";
  const read = async () => {
    // As far as pages were read before: the rows in sight stay.
    const count = all.peek()?.length ?? 0;
    let found: ListedFinding[] = [], cursor: string | undefined;
    do {
      const page = await api.findings(vm.id, cursor);
      [found, cursor] = [[...found, ...page.findings], page.next_cursor];
    } while (cursor !== undefined && found.length < count);
    [all.value, older.value] = [found, cursor];
  };
  const more = async () => {
    const page = await api.findings(vm.id, older.value);
    [all.value, older.value] = [[...all.value ?? [], ...page.findings], page.next_cursor];
  };
  const changed = async () => {
    await act(read);
    changes.value++;
  };
  useEffect(() => {
    if (isOnline) act(read);
  }, [vm.id, isOnline]);
  useEffect(() => onMessage(({ type }) => void (type === "finding" && act(read))), [vm.id]);
  const words = text.findings;
  if (all.value === undefined) return <p>{text.common.loading}</p>;
  const groups = groupsOf(all.value).filter(({ head }) => wanted === "all" || stateOf(head) === wanted);
  return (
    <>
      <div class="filters">
        <label>
          {words.state}{" "}
          <select value={wanted} onChange={({ currentTarget }) => setQuery({ state: currentTarget.value })}>
            {[...STATES, "all" as const].map((each) => (
              <option key={each} value={each}>{words.states[each]}</option>
            ))}
          </select>
        </label>
        <span class="hint" role="status">{words.count(all.value.length, older.value !== undefined)}</span>
      </div>
      {groups.length === 0 ? <p class="empty">{words.empty[wanted === "all" ? "all" : "some"]}</p> : (
        <Table
          label={text.vm.findings}
          head={[words.title, words.severity, words.decision, words.subject, words.time, words.actions]}
        >
          {groups.map((group) => (
            <FindingRow key={group.head.finding_id} vm={vm} group={group} onChanged={changed} />
          ))}
        </Table>
      )}
      {older.value !== undefined && (
        <p>
          <button type="button" onClick={() => act(more)}>{words.more}</button>
        </p>
      )}
      <Exceptions changes={changes.value} onRemoved={changed} />
    </>
  );
}

function FindingRow(
  { vm, group: { head, ids }, onChanged }: { vm: Recorded; group: Group; onChanged: () => Promise<void> },
) {
  const open = useSignal<"close" | "except" | undefined>(undefined);
  const { event_id, title, rule_id, severity, decision, subject, timestamp_unix_ms, states } = head;
  const state = stateOf(head);
  const words = text.findings;
  const last = states?.at(-1);
  const acknowledge = async () => {
    const isDone = await act(
      () => changeFindings(vm, ids, { status: "acknowledged" }),
      words.acknowledged(ids.length),
    );
    if (isDone) await onChanged();
  };
  const [page, name] = route.value;
  const close = () => open.value = undefined;
  return (
    <tr>
      <th scope="row">
        {title} {ids.length > 1 && <span class="pill" title={words.together}>{words.times(ids.length)}</span>}
        <p class="hint">{rule_id}</p>
      </th>
      <td>
        <span class={`pill ${severity}`}>{severity}</span>
      </td>
      <td>
        <Outcome decision={decision} />
      </td>
      <td>
        <a href={`${hrefOf(page, name, "timeline")}?event=${event_id}`}>{subject || event_id}</a>
      </td>
      <td>{timestamp_unix_ms ? <When at={timestamp_unix_ms} /> : text.common.none}</td>
      <td class="actions">
        {state !== "open" && (
          <p class="hint">{words.life(words.states[state], last?.verdict, last?.by.user, last?.reason)}</p>
        )}
        {state === "open" && (
          <button
            type="button"
            class="ghost"
            aria-label={words.acknowledgeOf(title)}
            onClick={acknowledge}
          >
            {words.acknowledge}
          </button>
        )}
        {state !== "closed" && (
          <button
            type="button"
            class="ghost"
            aria-label={words.closeOf(title)}
            onClick={() => open.value = "close"}
          >
            {words.close}
          </button>
        )}
        {state !== "excepted" && (
          <button
            type="button"
            class="ghost"
            aria-label={words.exceptOf(title)}
            onClick={() => open.value = "except"}
          >
            {words.except}
          </button>
        )}
        {open.value === "close" && (
          <CloseDialog vm={vm} title={title} ids={ids} onChanged={onChanged} onClose={close} />
        )}
        {open.value === "except" && (
          <ExceptDialog vm={vm} finding={head} onChanged={onChanged} onClose={close} />
        )}
      </td>
    </tr>
  );
}
