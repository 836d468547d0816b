import type { ComponentType } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { VmSummary } from "../../api/routes.ts";
import { hrefOf, route } from "../../app/route.ts";
import { connection, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { ChangesView } from "./changes/view.tsx";
import { FindingsView } from "./findings/view.tsx";
import { TimelineView } from "./timeline/view.tsx";

/** Views of a VM; the terminal's is loaded when it is wanted. */
const VIEWS = ["timeline", "terminal", "changes", "findings"] as const;
type View = typeof VIEWS[number];

/** One VM, by its name or id in the address. */
export function VmPage() {
  const [, name = "", wanted] = route.value;
  const vm = vms.value.find((each) => each.name === name || each.id === name);
  const view = VIEWS.find((each) => each === wanted) ?? "timeline";
  if (vm === undefined) {
    return <p class="empty">{connection.value === "online" ? text.vm.gone(name) : text.common.loading}</p>;
  }
  return (
    <>
      <div class="head">
        <h1>{vm.name}</h1>
        <span class={`state ${vm.status}`}>{vm.status}</span>
      </div>
      <nav class="views" aria-label={text.vm.tabs(vm.name)}>
        {VIEWS.map((each) => (
          <a key={each} href={hrefOf("vm", vm.name, each)} aria-current={each === view ? "page" : undefined}>
            {text.vm[each]}
          </a>
        ))}
      </nav>
      <ShownView key={`${vm.id} ${view}`} view={view} vm={vm} />
    </>
  );
}

function ShownView({ view, vm }: { view: View; vm: VmSummary }) {
  if (view === "findings") return <FindingsView vm={vm} />;
  if (view === "changes") return <ChangesView vm={vm} />;
  if (view === "timeline") return <TimelineView vm={vm} />;
  return vm.status === "Running" ? <LazyTerminal vm={vm} /> : <p class="empty">{text.vm.notRunning}</p>;
}

function LazyTerminal({ vm }: { vm: VmSummary }) {
  const loaded = useSignal<ComponentType<{ vm: VmSummary }> | undefined>(undefined);
  useEffect(() => {
    import("./terminal/view.tsx").then(({ TerminalView }) => loaded.value = TerminalView);
  }, []);
  const View = loaded.value;
  return View ? <View vm={vm} /> : <p>{text.common.loading}</p>;
}
