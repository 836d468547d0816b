/** Logs of a VM: its console, and the output of its process on this machine; they follow their files. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { api, type VmSummary } from "../../api/routes.ts";
import { Icon } from "../../part/icon.tsx";
import { connection, useLoaded } from "../../store/store.ts";
import { FilterField } from "../../part/search.tsx";
import { text } from "../../text/en.ts";

/** `ms` between two reads of a log that is looked at. */
const LOOK_MS = 2000;
/** `px` from the end at which a log still follows. */
const NEAR = 24;

export function LogsView({ vm }: { vm: VmSummary }) {
  const { value, reload } = useLoaded(() => api.logs(vm.id), [vm.id]);
  const chosen = useSignal<string | undefined>(undefined);
  const follows = useSignal(true);
  const find = useSignal("");
  const shown = useRef<HTMLPreElement>(null);
  const isOnline = connection.value === "online";
  useEffect(() => {
    if (!follows.value || !isOnline) return;
    // A failed read is replaced by the next one: the frame reports that sbx is away.
    const look = () => document.hidden || api.logs(vm.id).then((answer) => value.value = answer, () => {});
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, [vm.id, follows.value, isOnline]);
  const logs = value.value?.logs;
  const log = logs?.find(({ name }) => name === chosen.value) ?? logs?.[0];
  const sought = find.value.trim().toLowerCase();
  const found = log?.lines.filter((line) => line.toLowerCase().includes(sought)) ?? [];
  const lines = found.join("\n");
  useLayoutEffect(() => {
    const { current } = shown;
    if (follows.value && current) current.scrollTop = current.scrollHeight;
  }, [lines, follows.value]);
  const words = text.logs;
  // Who scrolls back reads: the lines stay where they are until the end is reached again.
  const scrolled = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }: Event & {
    currentTarget: HTMLPreElement;
  }) => follows.value = scrollHeight - scrollTop - clientHeight < NEAR;
  return (
    <>
      <div class="filters">
        <select
          aria-label={words.log}
          value={log?.name}
          onChange={({ currentTarget }) => chosen.value = currentTarget.value}
        >
          {logs?.map(({ name }) => <option key={name}>{name}</option>)}
        </select>
        <FilterField label={words.find} value={find.value} onFilter={(typed) => find.value = typed} />
        <label class="check">
          <input
            type="checkbox"
            role="switch"
            checked={follows.value}
            onChange={({ currentTarget }) => follows.value = currentTarget.checked}
          />
          {words.follow}
        </label>
        <button type="button" class="ghost" onClick={reload}>
          <Icon name="refresh" /> {words.again}
        </button>
        {log && sought !== "" && (
          <span class="hint" role="status">{words.matches(found.length, log.lines.length)}</span>
        )}
        {log?.truncated && <span class="hint">{words.cut}</span>}
      </div>
      {logs === undefined && <p class="hint" role="status">{text.common.loading}</p>}
      {logs?.length === 0 && <p class="empty">{words.empty}</p>}
      {log && found.length === 0 && sought !== "" && <p class="empty">{words.none}</p>}
      {log && (found.length > 0 || sought === "") && (
        <pre
          ref={shown}
          class="body log"
          tabIndex={0}
          role="group"
          aria-label={log.name}
          onScroll={scrolled}
        >{lines}</pre>
      )}
    </>
  );
}
