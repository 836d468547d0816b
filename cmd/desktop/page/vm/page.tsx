import type { ComponentType } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { loadPart } from "../../api/client.ts";
import { api, type VmListed, type VmSummary } from "../../api/routes.ts";
import { Icon, type IconName } from "../../part/icon.tsx";
import { When } from "../../part/time.tsx";
import { hrefOf, route, VM_VIEWS } from "../../app/route.ts";
import { connection, pastNames, useLoaded, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { VmActions } from "./actions.tsx";
import { ChangesView } from "./changes/view.tsx";
import { Evidence } from "./evidence.tsx";
import { FindingsView } from "./findings/view.tsx";
import { HeldView } from "./held/view.tsx";
import { PortsView } from "./lists.tsx";
import { LogsView } from "./logs.tsx";
import { ProgramsView } from "./programs/view.tsx";
import { CallsView } from "./calls/view.tsx";
import { RequestsView } from "./network/view.tsx";
import { FilesView } from "./files/view.tsx";
import { VmState } from "./state.tsx";
import { type Recorded, TimelineView } from "./timeline/view.tsx";

type View = typeof VM_VIEWS[number];

/** One VM, by its name or id in the address. */
export function VmPage() {
  const [, name = "", wanted] = route.value;
  const vm = vms.value.find((each) => each.name === name || each.id === name);
  const view = VM_VIEWS.find((each) => each === wanted) ?? "timeline";
  if (vm === undefined) {
    return connection.value === "online"
      ? <Gone what={text.vm.gone(name)} />
      : <p class="empty">{text.common.loading}</p>;
  }
  return (
    <>
      <VmHead vm={vm} />
      <HeldView vm={vm} />
      <Tabs place={["vm", vm.name]} name={vm.name} views={VM_VIEWS} view={view} />
      <ShownView key={`${vm.id} ${view}`} view={view} vm={vm} />
    </>
  );
}

/** In place of a VM or session that is not there: the way to the others. */
function Gone({ what }: { what: string }) {
  return (
    <>
      <h1>{what}</h1>
      <p class="empty">
        <a href={hrefOf("sessions")}>{text.vm.all}</a>
      </p>
    </>
  );
}

/** The VM in a line: its state, its contract, its size and its actions. */
function VmHead({ vm }: { vm: VmListed }) {
  const { profile_id, agent, cpus, ram_mb, active_at, folder } = vm;
  return (
    <div class="head vm-head">
      <div>
        <h1>{vm.name}</h1>
        <VmState vm={vm} />
      </div>
      <ul class="facts">
        <li title={text.sessions.profile}>
          <Icon name="rules" /> {profile_id}
        </li>
        {agent && (
          <li title={text.sessions.agent}>
            <Icon name="agent" /> {agent}
          </li>
        )}
        <li title={text.sessions.size}>
          <Icon name="cpu" /> {text.sessions.sizes(cpus, ram_mb)}
        </li>
        {folder && (
          <li title={folder.dir}>
            <Icon name="files" /> {folder.dir.split("/").at(-1)}
          </li>
        )}
        {active_at && (
          <li>
            <Icon name="time" /> <When at={active_at} />
          </li>
        )}
      </ul>
      <VmActions vm={vm} />
    </div>
  );
}

const VIEW_ICONS: Record<View, IconName> = {
  timeline: "activity",
  programs: "tree",
  requests: "network",
  calls: "model",
  findings: "alert",
  changes: "work",
  terminal: "program",
  files: "files",
  ports: "ports",
  logs: "logs",
};

function Tabs(
  { place, name, views, view }: { place: string[]; name: string; views: readonly View[]; view: View },
) {
  const bar = useRef<HTMLElement>(null);
  // In a narrow window the bar is wider than its place.
  useLayoutEffect(() => {
    const element = bar.current!;
    const show = () => {
      const chosen = element.querySelector<HTMLElement>("[aria-current]");
      if (!chosen) return;
      const left = chosen.offsetLeft - element.offsetLeft;
      element.scrollLeft = left - (element.clientWidth - chosen.offsetWidth) / 2;
    };
    show();
    const observer = new ResizeObserver(show);
    observer.observe(element);
    return () => observer.disconnect();
  }, [view]);
  return (
    <nav ref={bar} class="views" aria-label={text.vm.tabs(name)}>
      {views.map((each) => (
        <a key={each} href={hrefOf(...place, each)} aria-current={each === view ? "page" : undefined}>
          <Icon name={VIEW_ICONS[each]} /> {text.vm[each]}
        </a>
      ))}
    </nav>
  );
}

/** Views of a session's record, which outlives its VM. */
const RECORD_VIEWS = {
  timeline: TimelineView,
  programs: ProgramsView,
  requests: RequestsView,
  calls: CallsView,
  findings: FindingsView,
} satisfies Partial<Record<View, ComponentType<{ vm: Recorded }>>>;
const RECORD_NAMES = ["timeline", "programs", "requests", "calls", "findings"] as const;

/** A session that is over, by its id in the address: its record, to read. */
export function SessionPage() {
  const [, id = "", wanted] = route.value;
  const sessions = useLoaded(api.sessions).value.value?.sessions;
  const session = sessions?.find((each) => each.id === id);
  useEffect(() => {
    if (sessions) pastNames.value = new Map(sessions.map((each) => [each.id, each.name]));
  }, [sessions]);
  const view = RECORD_NAMES.find((each) => each === wanted) ?? "timeline";
  if (session === undefined) {
    return sessions ? <Gone what={text.vm.goneSession(id)} /> : <p class="empty">{text.common.loading}</p>;
  }
  const Shown = RECORD_VIEWS[view];
  return (
    <>
      <div class="head vm-head">
        <div>
          <h1>{session.name}</h1>
          <span class="pill">{text.vm.isPast}</span>
        </div>
        <ul class="facts">
          <li title={text.sessions.profile}>
            <Icon name="rules" /> {session.profile_id}
          </li>
          <li title={text.sessions.started}>
            <Icon name="play" /> <When at={session.created_at} />
          </li>
          {session.ended_at && (
            <li title={text.sessions.ended}>
              <Icon name="stop" /> <When at={session.ended_at} />
            </li>
          )}
          {session.user && (
            <li title={text.sessions.by}>
              <Icon name="agent" /> {session.user}
            </li>
          )}
        </ul>
      </div>
      <Evidence key={id} id={id} name={session.name} />
      <Tabs place={["session", id]} name={session.name} views={RECORD_NAMES} view={view} />
      <Shown key={`${id} ${view}`} vm={session} />
    </>
  );
}

/** Views that exist from the start, with a running VM and without. */
const SHOWN: Partial<Record<View, ComponentType<{ vm: VmSummary }>>> = {
  timeline: TimelineView,
  programs: ProgramsView,
  requests: RequestsView,
  calls: CallsView,
  changes: ChangesView,
  files: FilesView,
  findings: FindingsView,
  logs: LogsView,
};

function ShownView({ view, vm }: { view: View; vm: VmSummary }) {
  const Shown = SHOWN[view];
  if (Shown) return <Shown vm={vm} />;
  if (vm.status !== "Running") return <p class="empty">{text.vm.notRunning}</p>;
  return view === "ports" ? <PortsView vm={vm} /> : <LazyTerminal vm={vm} />;
}

function LazyTerminal({ vm }: { vm: VmSummary }) {
  const loaded = useSignal<ComponentType<{ vm: VmSummary }> | undefined>(undefined);
  useEffect(() => {
    loadPart(() => import("./terminal/tabs.tsx")).then(({ TerminalTabs }) => loaded.value = TerminalTabs);
  }, []);
  const View = loaded.value;
  return View ? <View vm={vm} /> : <p>{text.common.loading}</p>;
}
