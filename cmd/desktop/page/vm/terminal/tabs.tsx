import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api, type VmSummary } from "../../../api/routes.ts";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { fontSize } from "../../../app/look.ts";
import { type OpenTerminal, openTerminal } from "./open.ts";

/** Command of an additional terminal. */
const SHELL = ["bash", "-l"];
/** The VM's own terminal, which all share. */
const MAIN = "";

/** The terminals of a VM: its own, and jobs that have one. All live on in the VM while not shown. */
export function TerminalTabs({ vm }: { vm: VmSummary }) {
  const jobs = useSignal<string[]>([]);
  const shown = useSignal(MAIN);
  const words = text.terminal;
  const load = () =>
    act(async () => {
      const { jobs: all } = await api.jobs(vm.id);
      jobs.value = all.filter(({ tty, state }) => tty && state === "Running").map(({ id }) => id);
    });
  useEffect(() => void load(), [vm.id]);
  const add = () =>
    act(async () => {
      const job = await api.startJob(vm.id, { command: SHELL, tty: true });
      if (job.state === "Ended") throw new Error(words.refused(job.reason ?? ""));
      await load();
      shown.value = job.id;
    });
  // Its view stays, with the program's last output.
  const forget = (ended: string) => jobs.value = jobs.value.filter((job) => job !== ended);
  const name = (job: string) => job === MAIN ? words.main : words.job(job);
  return (
    <>
      <div class="terminals" role="group" aria-label={words.all}>
        {[MAIN, ...jobs.value].map((job) => (
          <button
            key={job}
            type="button"
            aria-pressed={job === shown.value}
            onClick={() => shown.value = job}
          >
            {name(job)}
          </button>
        ))}
        <button type="button" onClick={add}>{words.add}</button>
      </div>
      <TerminalView
        key={shown.value}
        vm={vm}
        job={shown.value || undefined}
        onEnd={() => forget(shown.value)}
      />
    </>
  );
}

/** One terminal of a VM, which lives on in the VM while not shown. */
function TerminalView({ vm, job, onEnd }: { vm: VmSummary; job?: string; onEnd: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const terminal = useRef<OpenTerminal>(null);
  const find = useRef<HTMLInputElement>(null);
  const round = useSignal(0);
  const isOver = useSignal(false);
  const words = text.terminal;
  useEffect(() => {
    isOver.value = false;
    const opened = openTerminal(host.current!, vm.id, {
      job,
      fontSize: fontSize.value,
      onEnd: () => {
        isOver.value = true;
        onEnd();
      },
      onLeave: () => find.current?.focus(),
    });
    terminal.current = opened;
    opened.focus();
    return () => opened.close();
  }, [vm.id, job, round.value, fontSize.value]);
  return (
    <>
      <div class="buttons">
        <input
          ref={find}
          type="search"
          aria-label={words.find}
          placeholder={words.find}
          onKeyDown={({ key, currentTarget }) =>
            key === "Enter" && terminal.current?.find(currentTarget.value)}
        />
        {isOver.value && job === undefined && (
          <button type="button" onClick={() => round.value++}>{words.again}</button>
        )}
      </div>
      <p role="status">{isOver.value && words.over}</p>
      <div class="terminal" ref={host} role="group" aria-label={words.of(vm.name)} />
      <p class="hint">{words.links}</p>
    </>
  );
}
