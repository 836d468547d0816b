import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { containerName, type ProcessNode, ProcessTreeBuilder } from "../../../../../lib/event/mod.ts";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { Table, timeOf } from "../../../part/common.tsx";
import { act } from "../../../store/store.ts";
import { onMessage } from "../../../store/live.ts";
import { text } from "../../../text/en.ts";

const PAGE_SIZE = "1000";
/** Programs that are drawn, the newest; sbx tree shows all. */
const SHOWN_MAX = 1000;
/** `characters` of a command that are drawn. */
const COMMAND_MAX = 300;
/** Levels that are indented, and the `rem` of one. */
const DEPTH_MAX = 20;
const INDENT = 1.2;

/** The programs of a VM as a tree, as they start and end. */
export function ProgramsView({ vm }: { vm: { id: string; name: string } }) {
  const nodes = useSignal<ProcessNode[] | undefined>(undefined);
  useEffect(() => {
    const builder = new ProcessTreeBuilder();
    const early: RecordedEvent[] = [];
    let last = 0;
    let frame = 0;
    let isOver = false;
    let isLoading = true;
    const add = (event: RecordedEvent) => {
      if (event.common.sequence <= last) return;
      last = event.common.sequence;
      builder.add(event);
    };
    const draw = () =>
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        nodes.value = builder.tree().processes;
      });
    const stop = onMessage(({ type, payload }) => {
      if (type !== "security-event") return;
      const { event, decision } = payload;
      if (event.common.session_id !== vm.id || !event.process) return;
      const decided = { ...event, decision: decision?.decision, rule_id: decision?.rule.id };
      if (isLoading) return void early.push(decided);
      add(decided);
      draw();
    });
    act(async () => {
      let cursor: string | undefined;
      do {
        const page = await api.events(vm.id, { family: "process", cursor, limit: PAGE_SIZE });
        if (isOver) return;
        page.events.forEach(add);
        cursor = page.next_cursor;
      } while (cursor !== undefined);
      isLoading = false;
      early.forEach(add);
      draw();
    });
    return () => {
      isOver = true;
      stop();
      cancelAnimationFrame(frame);
    };
  }, [vm.id]);
  const words = text.programs;
  if (nodes.value === undefined) return <p>{text.common.loading}</p>;
  if (nodes.value.length === 0) return <p class="empty">{words.empty}</p>;
  const hidden = nodes.value.length - SHOWN_MAX;
  return (
    <>
      {hidden > 0 && <p class="hint">{words.hidden(hidden, vm.name)}</p>}
      <Table label={text.vm.programs} head={[words.program, words.pid, words.started, words.ended]}>
        {nodes.value.slice(-SHOWN_MAX).map((node, at) => (
          <tr key={node.event_id ?? `${node.pid} ${at}`}>
            <th scope="row" style={{ paddingLeft: `${0.6 + Math.min(node.depth, DEPTH_MAX) * INDENT}rem` }}>
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
