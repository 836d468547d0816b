import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { containerName, type ProcessNode } from "../../../../../lib/event/mod.ts";
import { hrefOf, route } from "../../../app/route.ts";
import { Table } from "../../../part/common.tsx";
import { When } from "../../../part/time.tsx";
import { FilterField } from "../../../part/search.tsx";
import { text } from "../../../text/en.ts";
import { Programs } from "./programs.ts";

/** Programs that are drawn at first, the newest: more than a window has lines. */
const SHOWN = 60;
/** More of them with each click. */
const MORE = 200;
/** `characters` of a command that are drawn. */
const COMMAND_MAX = 300;
/** Levels that are indented. */
const DEPTH_MAX = 20;

/** The programs of a VM as a tree, as they start and end. */
export function ProgramsView({ vm }: { vm: { id: string; name: string } }) {
  const programs = useMemo(() => new Programs(vm.id), [vm.id]);
  const shown = useSignal(SHOWN);
  const find = useSignal("");
  const { nodes, hasOlder } = programs;
  useEffect(() => {
    programs.read();
    return () => programs.close();
  }, [programs]);
  const more = async () => {
    if (shown.value + MORE > (nodes.value?.length ?? 0) && hasOlder.value) await programs.read();
    shown.value += MORE;
  };
  const words = text.programs;
  if (nodes.value === undefined) return <p class="hint" role="status">{text.common.loading}</p>;
  if (nodes.value.length === 0 && !hasOlder.value) return <p class="empty">{words.empty}</p>;
  const drawn = nodes.value.slice(-shown.value);
  const sought = find.value.trim().toLowerCase();
  const found = drawn.filter((node) => (node.command || node.executable).toLowerCase().includes(sought));
  const [page, name] = route.value;
  return (
    <>
      <div class="filters">
        <FilterField label={words.find} value={find.value} onFilter={(typed) => find.value = typed} />
      </div>
      {found.length === 0 && <p class="empty">{words.nothing}</p>}
      {(hasOlder.value || drawn.length < nodes.value.length) && (
        <p class="hint">
          {words.newest(drawn.length, vm.name)} <button type="button" onClick={more}>{words.older}</button>
        </p>
      )}
      <Table
        label={text.vm.programs}
        head={[words.program, { number: words.pid }, words.started, words.ended]}
      >
        {found.map((node, at) => (
          <tr key={node.event_id ?? `${node.pid} ${at}`}>
            <th
              scope="row"
              class="program"
              // A match stands without its parents.
              style={{ "--depth": sought === "" ? Math.min(node.depth, DEPTH_MAX) : 0 }}
            >
              {node.event_id === undefined
                ? <code>{commandOf(node)}</code>
                : (
                  <a href={`${hrefOf(page, name, "timeline")}?event=${node.event_id}`}>
                    <code>{commandOf(node)}</code>
                  </a>
                )}
              {node.container && (
                <span class="hint" title={node.container.image}>
                  {` ${words.inContainer(containerName(node.container))}`}
                </span>
              )}
            </th>
            <td class="number">{node.pid ?? text.common.none}</td>
            <td>
              <When at={node.timestamp_unix_ms} />
            </td>
            <td>
              <End node={node} />
            </td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function commandOf({ command, executable }: ProcessNode): string {
  const whole = command || executable;
  return whole.length > COMMAND_MAX ? `${whole.slice(0, COMMAND_MAX)}…` : whole;
}

/** How a program ended; a failure stands out. */
function End({ node: { decision, rule_id, exit_code } }: { node: ProcessNode }) {
  const words = text.programs;
  if (decision === "block") return <span class="pill block">{words.blocked(rule_id ?? "")}</span>;
  if (exit_code === undefined) return <span class="pill">{words.runs}</span>;
  return exit_code === 0
    ? <span class="ended">{words.exit(0)}</span>
    : <span class="pill ask">{words.exit(exit_code)}</span>;
}
