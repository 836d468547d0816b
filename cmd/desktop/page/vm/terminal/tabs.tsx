import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type VmSummary } from "../../../api/routes.ts";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { TerminalView } from "./view.tsx";

/** What a further terminal runs. */
const SHELL = ["bash", "-l"];
/** The VM's own terminal, which all share. */
const MAIN = "";

/** The terminals of a VM: its own, and jobs that have one. All live on in the VM while nobody looks. */
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
  // Its view stays, with what the program said last.
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
