import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { containerName, type ProcessNode } from "../../../../../lib/event/mod.ts";
import { Table, timeOf } from "../../../part/common.tsx";
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
  if (nodes.value === undefined) return <p>{text.common.loading}</p>;
  if (nodes.value.length === 0 && !hasOlder.value) return <p class="empty">{words.empty}</p>;
  const drawn = nodes.value.slice(-shown.value);
  return (
    <>
      {(hasOlder.value || drawn.length < nodes.value.length) && (
        <p class="hint">
          {words.newest(drawn.length, vm.name)} <button type="button" onClick={more}>{words.older}</button>
        </p>
      )}
      <Table label={text.vm.programs} head={[words.program, words.pid, words.started, words.ended]}>
        {drawn.map((node, at) => (
          <tr key={node.event_id ?? `${node.pid} ${at}`}>
            <th scope="row" class="program" style={{ "--depth": Math.min(node.depth, DEPTH_MAX) }}>
              <code>{commandOf(node)}</code>
              {node.container && (
                <span class="hint" title={node.container.image}>
                  {` ${words.inContainer(containerName(node.container))}`}
                </span>
              )}
            </th>
            <td>{node.pid ?? text.common.none}</td>
            <td>{timeOf(node.timestamp_unix_ms)}</td>
            <td>{endOf(node)}</td>
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

function endOf({ decision, rule_id, exit_code }: ProcessNode): string {
  if (decision === "block") return text.programs.blocked(rule_id ?? "");
  return exit_code === undefined ? text.common.none : text.programs.exit(exit_code);
}
