import { signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { containerName, type ProcessNode, ProcessTreeBuilder } from "../../../../../lib/event/mod.ts";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { Table, timeOf } from "../../../part/common.tsx";
import { act } from "../../../store/store.ts";
import { onMessage } from "../../../store/live.ts";
import { text } from "../../../text/en.ts";

const PAGE_SIZE = "1000";
/** Events of the first request: a start and an end for each program that is drawn at first. */
const FIRST_SIZE = "400";
/** Programs that are drawn at first, the newest, and with each wish for older ones. */
const SHOWN = 200;
/** `characters` of a command that are drawn. */
const COMMAND_MAX = 300;
/** Levels that are indented, and the `rem` of one. */
const DEPTH_MAX = 20;
const INDENT = 1.2;

/** The programs of a session: its newest events, and older ones as far as they were asked for. */
class Programs {
  readonly nodes = signal<ProcessNode[] | undefined>(undefined);
  /** the record has older events than these */
  readonly hasOlder = signal(false);
  readonly #session: string;
  readonly #stop: () => void;
  /** the oldest first */
  #events: RecordedEvent[] = [];
  #builder = new ProcessTreeBuilder();
  /** events that come while the newest ones are read */
  #early: RecordedEvent[] | undefined = [];
  #older: string | undefined;
  #frame = 0;
  #isOver = false;

  constructor(session: string) {
    this.#session = session;
    this.#stop = onMessage(({ type, payload }) => {
      if (type !== "security-event") return;
      const { event, decision } = payload;
      if (event.common.session_id !== session || !event.process) return;
      const decided = { ...event, decision: decision?.decision, rule_id: decision?.rule.id };
      if (this.#early) return void this.#early.push(decided);
      this.#add(decided);
    });
  }

  close(): void {
    this.#isOver = true;
    this.#stop();
    cancelAnimationFrame(this.#frame);
  }

  /** Reads a page: the newest events at first, and then the ones before them. */
  read(): Promise<boolean> {
    return act(async () => {
      const { events, next_cursor } = await api.events(this.#session, {
        family: "process",
        order: "newest",
        cursor: this.#older,
        limit: this.#early ? FIRST_SIZE : PAGE_SIZE,
      });
      if (this.#isOver) return;
      this.#older = next_cursor;
      this.hasOlder.value = next_cursor !== undefined;
      this.#events = [...events.toReversed(), ...this.#events];
      // A parent comes before its children.
      this.#builder = new ProcessTreeBuilder();
      for (const event of this.#events) this.#builder.add(event);
      const early = this.#early ?? [];
      this.#early = undefined;
      early.forEach((event) => this.#add(event));
      this.#draw();
    });
  }

  #add(event: RecordedEvent): void {
    if (event.common.sequence <= (this.#events.at(-1)?.common.sequence ?? 0)) return;
    this.#events.push(event);
    this.#builder.add(event);
    this.#draw();
  }

  #draw(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.nodes.value = this.#builder.tree().processes;
    });
  }
}

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
    if (shown.value + SHOWN > (nodes.value?.length ?? 0) && hasOlder.value) await programs.read();
    shown.value += SHOWN;
  };
  const words = text.programs;
  if (nodes.value === undefined) return <p>{text.common.loading}</p>;
  if (nodes.value.length === 0) return <p class="empty">{words.empty}</p>;
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
