/** The terminals of a VM: its own, and jobs that have one. All live on in the VM while not shown. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { fontSize } from "../../../app/look.ts";
import { api, type VmSummary } from "../../../api/routes.ts";
import { ConfirmDialog, Dialog } from "../../../part/common.tsx";
import { Icon } from "../../../part/icon.tsx";
import { act, connection } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import { freeName, readNames, withName, writeNames } from "./names.ts";
import { openTerminal } from "./open.ts";

/** Command of an additional terminal. */
const SHELL = ["bash", "-l"];
/** The VM's own terminal, which all share. */
const MAIN = "";

interface Tab {
  id: string;
  command: string;
}

export function TerminalTabs({ vm }: { vm: VmSummary }) {
  const jobs = useSignal<Tab[]>([]);
  const shown = useSignal(MAIN);
  const names = useSignal(readNames());
  const dialog = useSignal<"rename" | "close" | undefined>(undefined);
  const words = text.terminal;
  const nameOf = ({ id, command }: Tab) => id === MAIN ? words.main : names.value[id] ?? command;
  const name = (id: string, given: string) => {
    names.value = withName(readNames(), id, given);
    writeNames(names.value);
  };
  const load = () =>
    act(async () => {
      const { jobs: all } = await api.jobs(vm.id);
      jobs.value = all.filter(({ tty, state }) => tty && state === "Running")
        .map(({ id, argv }) => ({ id, command: argv.join(" ") }));
    });
  const isOnline = connection.value === "online";
  useEffect(() => void (isOnline && load()), [vm.id, isOnline]);
  const add = () =>
    act(async () => {
      const job = await api.startJob(vm.id, { command: SHELL, tty: true });
      if (job.state === "Ended") throw new Error(words.refused(job.reason ?? ""));
      name(job.id, freeName(words.numbered, jobs.value.map(nameOf)));
      await load();
      shown.value = job.id;
    });
  // Its view stays, with the program's last output.
  const forget = (ended: string) => jobs.value = jobs.value.filter(({ id }) => id !== ended);
  const stop = (job: string) =>
    act(async () => {
      dialog.value = undefined;
      await api.stopJob(vm.id, job);
      shown.value = MAIN;
      await load();
    });
  const current = jobs.value.find(({ id }) => id === shown.value);
  return (
    <div class="terminal-view">
      <div class="terminals" role="group" aria-label={words.all}>
        {[{ id: MAIN, command: "" }, ...jobs.value].map((tab) => (
          <button
            key={tab.id}
            type="button"
            aria-pressed={tab.id === shown.value}
            title={tab.command || undefined}
            onClick={() => shown.value = tab.id}
          >
            {nameOf(tab)}
          </button>
        ))}
        <button type="button" class="ghost" onClick={add}>
          <Icon name="plus" /> {words.add}
        </button>
        {current && (
          <span class="terminal-actions">
            <button type="button" class="ghost" onClick={() => dialog.value = "rename"}>
              {words.rename}
            </button>
            <button type="button" class="ghost" onClick={() => dialog.value = "close"}>{words.close}</button>
          </span>
        )}
      </div>
      <TerminalView
        key={shown.value}
        vm={vm}
        job={shown.value || undefined}
        onEnd={() => forget(shown.value)}
      />
      {current && dialog.value === "rename" && (
        <Dialog
          title={words.renameTitle(nameOf(current))}
          onClose={() => dialog.value = undefined}
        >
          <form
            onSubmit={(event) => {
              event.preventDefault();
              name(current.id, String(new FormData(event.currentTarget).get("name")));
              dialog.value = undefined;
            }}
          >
            <label>
              {words.name}
              <input name="name" defaultValue={nameOf(current)} maxLength={60} autocomplete="off" />
            </label>
            <div class="buttons">
              <button type="button" onClick={() => dialog.value = undefined}>{text.common.cancel}</button>
              <button type="submit" class="main">{words.rename}</button>
            </div>
          </form>
        </Dialog>
      )}
      {current && dialog.value === "close" && (
        <ConfirmDialog
          title={words.closeTitle(nameOf(current))}
          label={words.close}
          onClose={() => dialog.value = undefined}
          onConfirm={() => stop(current.id)}
        >
          <p>{words.closeLoss}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

/** `ms` until a lost terminal is attached again; doubles from try to try. */
const RETRY_FIRST_MS = 250, RETRY_MAX_MS = 4000;

/** One terminal of a VM, which lives on in the VM while not shown. */
function TerminalView({ vm, job, onEnd }: { vm: VmSummary; job?: string; onEnd: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const terminal = useRef<ReturnType<typeof openTerminal>>(null);
  const find = useRef<HTMLInputElement>(null);
  const round = useSignal(0);
  const state = useSignal<"open" | "lost" | "over">("open");
  const wait = useRef(RETRY_FIRST_MS);
  const words = text.terminal;
  useEffect(() => {
    state.value = "open";
    const opened = openTerminal(host.current!, vm.id, {
      job,
      fontSize: fontSize.value,
      onOpen: () => [state.value, wait.current] = ["open", RETRY_FIRST_MS],
      onEnd: () => {
        state.value = "over";
        onEnd();
      },
      onLost: () => {
        state.value = "lost";
        tries.value++;
      },
      onLeave: () => find.current?.focus(),
    });
    terminal.current = opened;
    opened.focus();
    return () => opened.close();
  }, [vm.id, job, round.value, fontSize.value]);
  const tries = useSignal(0);
  const isOnline = connection.value === "online";
  useEffect(() => {
    if (state.value !== "lost" || !isOnline) return;
    const timer = setTimeout(() => terminal.current?.reconnect(), wait.current);
    wait.current = Math.min(wait.current * 2, RETRY_MAX_MS);
    return () => clearTimeout(timer);
  }, [isOnline, tries.value]);
  return (
    <>
      <div class="terminal-find">
        <input
          ref={find}
          type="search"
          aria-label={words.find}
          placeholder={words.find}
          onKeyDown={({ key, currentTarget }) =>
            key === "Enter" && terminal.current?.find(currentTarget.value)}
        />
        {state.value === "over" && job === undefined && (
          <button type="button" onClick={() => round.value++}>{words.again}</button>
        )}
      </div>
      <p class="terminal-state" role="status">
        {state.value === "over" && words.over}
        {state.value === "lost" && words.lost}
      </p>
      <div class="terminal" ref={host} role="group" aria-label={words.of(vm.name)} />
      <p class="hint">{words.links}</p>
    </>
  );
}
