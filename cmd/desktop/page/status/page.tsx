import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { hrefOf, useAddressed } from "../../app/route.ts";
import { api, type HostCheck, type SystemStatus } from "../../api/routes.ts";
import { commandsOf } from "../../part/advice.ts";
import { CommandLine, saveFile } from "../../part/common.tsx";
import { Icon, type IconName } from "../../part/icon.tsx";
import { Advice, Problem, sentenceOf } from "../../part/remedy.tsx";
import { When } from "../../part/time.tsx";
import { act, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";

/** Problems of the service, the checks of this machine, and the report for the developers of sbx. */
export function StatusPage() {
  const status = useLoaded(api.status);
  const machine = useLoaded(api.doctor);
  const show = useAddressed("show");
  const at = useSignal(Date.now());
  const isChecking = useSignal(false);
  const areStepsOver = useSignal(true);
  const words = text.status;
  const again = async () => {
    isChecking.value = true;
    await Promise.all([status.reload(), machine.reload()]);
    [at.value, isChecking.value] = [Date.now(), false];
  };
  const mend = async () => {
    await act(async () => {
      machine.value.value = await api.mend();
      if (machine.value.value.fixed.length === 0) throw new Error(words.notMended);
    }, words.mended);
    await status.reload();
  };
  const checks = machine.value.value?.checks;
  const failures = checks?.filter(({ state }) => state === "failed") ?? [];
  // An issue that a check of the machine also found is shown there, with its remedy.
  const issues = (status.value.value?.issues ?? []).filter((issue) =>
    !failures.some(({ detail }) => issue.startsWith(detail))
  );
  const problems = status.value.value && checks && issues.length + failures.length;
  return (
    <>
      <div class="head">
        <h1>{text.page.status}</h1>
        <div class="buttons">
          <button type="button" onClick={again} disabled={isChecking.value}>
            <Icon name="refresh" /> {isChecking.value ? words.checking : words.again}
          </button>
          <DebugReport />
        </div>
      </div>
      <Summary problems={problems} at={at.value} />
      <div class="health">
        <div>
          <Issues issues={issues} />
          <Machine checks={checks} show={show} onMend={mend} />
          <div hidden={areStepsOver.value}>
            <FirstSteps isOver={(over) => areStepsOver.value = over} />
          </div>
        </div>
        {status.value.value && <Facts status={status.value.value} />}
      </div>
    </>
  );
}

type Checks = HostCheck[] | undefined;

/** In one sentence: whether sbx works here. */
function Summary({ problems: count, at }: { problems: number | undefined; at: number }) {
  const words = text.status;
  if (count === undefined) return <p class="summary" role="status">{words.checking}</p>;
  return (
    <p class={count === 0 ? "summary good" : "summary bad"} role="status">
      <Icon name={count === 0 ? "allow" : "alert"} size={20} />
      <strong>{count === 0 ? words.fine : words.problems(count)}</strong>
      <span class="hint">
        {words.checked} <When at={at} />
      </span>
    </p>
  );
}

/** Downloads the redacted report. The CLI makes it too, for when no page opens. */
function DebugReport() {
  const isMaking = useSignal(false);
  const words = text.status;
  const save = async () => {
    isMaking.value = true;
    await act(async () => {
      const report = await api.debugReport();
      const day = report.generated_at.slice(0, 10);
      saveFile(`sbx-debug-${day}.json`, new Blob([JSON.stringify(report, null, 2)]));
    }, words.reportSaved);
    isMaking.value = false;
  };
  return (
    <button type="button" title={words.reportHint} onClick={save} disabled={isMaking.value}>
      <Icon name="download" /> {isMaking.value ? words.reportMaking : words.report}
    </button>
  );
}

/** Problems that the service found, each with its remedy. */
function Issues({ issues }: { issues: string[] }) {
  if (issues.length === 0) return null;
  return (
    <section aria-labelledby="issues">
      <h2 id="issues">{text.status.issues}</h2>
      <ul class="checks">
        {issues.map((issue) => (
          <li key={issue} class="failed">
            <Icon name="close" />
            <div>
              <Problem issue={issue} />
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Checks about images, which the page Images builds. */
const OF_IMAGES = ["assets", "profiles"];
const STATE_ICONS: Record<HostCheck["state"], IconName> = { ok: "allow", skipped: "info", failed: "close" };
/** Failed checks first. */
const ORDER: HostCheck["state"][] = ["failed", "skipped", "ok"];
/** Value of `show` in the address that leaves out checks without a remark. */
const ATTENTION = "attention";
/** Placeholder rows while the checks run. */
const WAITING = 6;

function Machine(
  { checks, show, onMend }: { checks: Checks; show: Signal<string | undefined>; onMend: () => void },
) {
  const words = text.status;
  const isShort = show.value === ATTENTION;
  const shown = checks?.filter(({ state }) => !isShort || state !== "ok")
    .toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  return (
    <section aria-labelledby="machine">
      <div class="head">
        <h2 id="machine">{words.machine}</h2>
        <label class="check">
          <input
            type="checkbox"
            role="switch"
            checked={isShort}
            onChange={({ currentTarget }) => show.value = currentTarget.checked ? ATTENTION : undefined}
          />
          {words.attention}
        </label>
      </div>
      {shown?.length === 0 && <p class="empty">{words.noRemarks}</p>}
      <ul class="checks" aria-busy={checks === undefined}>
        {shown?.map((check) => <Check key={check.id} check={check} onMend={onMend} />) ??
          Array.from({ length: WAITING }, (_, at) => (
            <li key={at} aria-hidden="true">
              <span class="skeleton" />
            </li>
          ))}
      </ul>
    </section>
  );
}

function Check({ check, onMend }: { check: HostCheck; onMend: () => void }) {
  const { id, title, state, detail, remedy, fixable } = check;
  const words = text.status;
  return (
    <li class={state}>
      <Icon name={STATE_ICONS[state]} />
      <div>
        <strong>{sentenceOf(title)}</strong> <span class="hidden">{words.state[state]}</span>
        <p class="hint">{detail}</p>
        {remedy && <Advice text={remedy} commands={commandsOf(remedy)} />}
        {state === "failed" && OF_IMAGES.includes(id) && <a href={hrefOf("images")}>{words.buildHere}</a>}
      </div>
      {fixable && <button type="button" aria-label={words.fixOf(title)} onClick={onMend}>{words.fix}</button>}
    </li>
  );
}

/** The parts of this installation. */
function Facts({ status }: { status: SystemStatus }) {
  const { version, uptime_secs, host, hypervisor, vms, assets, corp, update, templates, sinks } = status;
  // A service of an earlier version has no such list.
  const old = status.old_programs ?? [];
  const words = text.status;
  const ready = assets.filter((each) => each.ready).length;
  return (
    <aside aria-labelledby="facts">
      <h2 id="facts">{words.facts}</h2>
      <dl>
        <Fact name={words.version}>
          {version}
          {update.last_check?.sbx && <span class="pill ask">{words.newer(update.last_check.sbx)}</span>}
        </Fact>
        <Fact name={words.since}>
          <When at={Date.now() - uptime_secs * 1000} />
        </Fact>
        <Fact name={words.host}>{words.hostOf(host.os, host.arch, host.cpus)}</Fact>
        <Fact name={words.hypervisor} title={hypervisor.reason}>
          {hypervisor.name}, {words.accelerators[hypervisor.accelerator] ?? hypervisor.accelerator}
        </Fact>
        <Fact name={words.vms}>
          <a href={hrefOf("sessions")}>{words.running(vms.running, vms.total)}</a>
        </Fact>
        <Fact name={words.assets}>{words.readyOf(ready, assets.length)}</Fact>
        <Fact name={words.templates}>
          {templates.enabled ? words.templatesOf(templates.count) : words.off}
        </Fact>
        <Fact name={words.corp}>{corp}</Fact>
        {sinks.length > 0 && <Fact name={words.sinks}>{sinks.length}</Fact>}
        {old.length > 0 && (
          <Fact name={words.oldPrograms}>
            {old.map(({ program, vm }) => words.oldProgram(program, vm)).join(", ")}
          </Fact>
        )}
      </dl>
      {old.length > 0 && (
        <>
          <p class="hint">{words.oldHint}</p>
          <CommandLine command={words.oldCommand} />
        </>
      )}
      {Object.entries(hypervisor.missing).map(([feature, lack]) => (
        <p key={feature} class="hint">
          {words.without(feature)}: {lack}
        </p>
      ))}
      <h3>{words.helpTitle}</h3>
      <p class="hint">{words.help}</p>
      <CommandLine command={words.bundleCommand} />
    </aside>
  );
}

function Fact({ name, title, children }: { name: string; title?: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd title={title}>{children}</dd>
    </>
  );
}
