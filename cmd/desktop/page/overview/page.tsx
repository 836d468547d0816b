/** Home: running VMs, things that wait for a person, blocked events and costs. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { api, type OverviewOf, type VmListed } from "../../api/routes.ts";
import { hrefOf } from "../../app/route.ts";
import { agoOf } from "../../part/ago.ts";
import { Bars } from "../../part/bars.tsx";
import { Table } from "../../part/common.tsx";
import { Icon, type IconName } from "../../part/icon.tsx";
import { subjectOf } from "../../part/subject.ts";
import { now, When } from "../../part/time.tsx";
import { useFound, useSpent } from "../../store/looks.ts";
import { asks, connection, useLoaded, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";
import { CreateDialog } from "../sessions/create.tsx";
import { VmState } from "../vm/state.tsx";
import { barsOf, Hours } from "./hour.ts";
import { type FoundFinding, type Need, type NeedKind, needsOf } from "./needs.ts";
import { stateOf } from "../vm/findings/group.ts";

const DAY_MS = 24 * 3600 * 1000;
/** `ms` of findings that still wait for a person. */
const FINDINGS_MS = 7 * DAY_MS;

/** Midnight of today, unix `ms`. */
function midnight(): number {
  return new Date(now.value).setHours(0, 0, 0, 0);
}

export function OverviewPage() {
  const creating = useSignal(false);
  return (
    <>
      <div class="head">
        <h1>{text.page.overview}</h1>
        <button type="button" class="main" onClick={() => creating.value = true}>
          <Icon name="plus" /> {text.sessions.create}
        </button>
      </div>
      {creating.value && <CreateDialog onClose={() => creating.value = false} />}
      {vms.value.length === 0 && connection.value === "online" ? <NoVm /> : <Facts />}
    </>
  );
}

function NoVm() {
  return (
    <>
      <p class="empty">{text.sessions.empty}</p>
      <FirstSteps />
    </>
  );
}

/** Costs of sessions, by their ids. */
interface Costs {
  micros: number;
  calls: number;
  unpriced: number;
}

function Facts() {
  const hours = useMemo(() => new Hours(), []);
  useEffect(() => () => hours.close(), []);
  const ids = vms.value.map(({ id }) => id).join();
  const today = midnight();
  const overview = useLoaded(() => hours.read(today), [ids, today, useSpent()]).value.value;
  const costs = new Map(overview?.vms.map((vm) => [vm.id, costsOf(vm)]));
  const findings = useLoaded(
    () => api.findingsAcross({ since: String(Date.now() - FINDINGS_MS) }),
    [useFound()],
  ).value.value?.findings ?? [];
  const status = useLoaded(api.status).value.value;
  const needs = needsOf({ asks: asks.value, vms: vms.value, findings, update: status?.update });
  return (
    <>
      <Tiles hours={hours} />
      <div class="overview">
        <section aria-label={text.overview.vms}>
          <VmTable hours={hours} costs={costs} findings={findings} />
        </section>
        <NeedList needs={needs} />
      </div>
    </>
  );
}

function costsOf({ cost_micros: micros, calls, unpriced_calls: unpriced }: OverviewOf["vms"][number]): Costs {
  return { micros, calls, unpriced };
}

function Tiles({ hours }: { hours: Hours }) {
  const words = text.overview.tiles;
  const running = vms.value.filter(({ status }) => status === "Running").length;
  // The counts are outside of signals.
  hours.version.value;
  const { denied, events, calls = 0, cost_micros: micros = 0, unpriced_calls: unpriced = 0 } = hours.today ??
    {};
  const oldest = asks.value.at(-1);
  return (
    <ul class="tiles" aria-label={words.label}>
      <Tile name={words.running} href={hrefOf("sessions")} note={words.runningOf(vms.value.length)}>
        {running}
      </Tile>
      <Tile
        name={words.waiting}
        href={hrefOf("inbox")}
        note={oldest ? words.oldest(agoOf(oldest.created_at, now.value)) : words.none}
        kind={oldest && "ask"}
      >
        {asks.value.length}
      </Tile>
      <Tile
        name={words.blocked}
        href={`${hrefOf("search")}?decision=block`}
        note={events === undefined ? "" : words.blockedOf(events)}
        kind={denied ? "block" : undefined}
      >
        {denied?.toLocaleString("en") ?? <Skeleton />}
      </Tile>
      <Tile
        name={words.cost}
        href={hrefOf("costs")}
        note={hours.today === undefined ? "" : unpriced > 0 ? words.unpriced(unpriced) : words.costOf(calls)}
      >
        {hours.today === undefined ? <Skeleton /> : text.overview.dollars(micros)}
      </Tile>
    </ul>
  );
}

function Skeleton() {
  return <span class="skeleton" role="status" aria-label={text.common.loading} />;
}

function Tile({ name, href, note, kind, children }: {
  name: string;
  href?: string;
  note: string;
  kind?: string;
  children: ComponentChildren;
}) {
  return (
    <li class={kind ? `tile ${kind}` : "tile"}>
      {href ? <a href={href}>{name}</a> : <span>{name}</span>}
      <strong>{children}</strong>
      <span class="hint">{note}</span>
    </li>
  );
}

function VmTable(
  { hours, costs, findings }: { hours: Hours; costs: Map<string, Costs>; findings: FoundFinding[] },
) {
  const words = text.overview;
  const head = [text.sessions.name, text.sessions.state, words.hour, words.last, words.findings, {
    number: words.cost,
  }];
  return (
    <Table label={words.vms} head={head}>
      {vms.value.map((vm) => (
        <VmRow key={vm.id} vm={vm} hours={hours} costs={costs.get(vm.id)} findings={findings} />
      ))}
    </Table>
  );
}

function VmRow({ vm, hours, costs, findings }: {
  vm: VmListed;
  hours: Hours;
  costs: Costs | undefined;
  findings: FoundFinding[];
}) {
  const words = text.overview;
  const { id, name, agent, profile_id } = vm;
  // The counts are outside of signals.
  hours.version.value;
  const bars = barsOf(hours.minutes.get(id), now.value);
  const sum = (of: (bar: typeof bars[number]) => number) => bars.reduce((all, bar) => all + of(bar), 0);
  const last = hours.last.get(id);
  const open = findings.filter((finding) => finding.session_id === id && stateOf(finding) === "open").length;
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf("vm", name)}>{name}</a>
        <p class="hint">{agent ?? profile_id}</p>
      </th>
      <td>
        <VmState vm={vm} />
      </td>
      <td class="hour">
        <Bars
          bars={bars}
          label={words.graph(
            sum(({ events }) => events),
            sum(({ denied }) => denied),
            sum(({ asked }) => asked),
          )}
        />
      </td>
      <td class="last">
        {last
          ? (
            <a href={`${hrefOf("vm", name, "timeline")}?event=${last.common.event_id}`}>
              <span>{subjectOf(last) || last.common.event_type}</span>
              <When at={last.common.timestamp_unix_ms} />
            </a>
          )
          : <span class="hint">{words.noEvent}</span>}
      </td>
      <td>
        {open > 0
          ? <a class="pill high" href={hrefOf("vm", name, "findings")}>{words.open(open)}</a>
          : text.common.none}
      </td>
      <td class="number">{costs && costs.calls > 0 ? words.dollars(costs.micros) : text.common.none}</td>
    </tr>
  );
}

/** Things in the list; the rest is behind their pages. */
const NEEDS_MAX = 12;
const NEED_ICONS: Record<NeedKind, IconName> = {
  ask: "inbox",
  finding: "alert",
  work: "work",
  update: "download",
  hold: "pause",
};

function NeedList({ needs }: { needs: Need[] }) {
  const words = text.overview;
  return (
    <section class="needs" aria-label={words.needs}>
      <h2>{words.needs}</h2>
      {needs.length === 0 && (
        <p class="empty">
          <Icon name="verified" /> {words.caughtUp}
        </p>
      )}
      <ul class="plain">
        {needs.slice(0, NEEDS_MAX).map(({ id, kind, severity, what, vm, at, href }) => (
          <li key={id}>
            <a href={href} class={severity ?? kind}>
              <Icon name={NEED_ICONS[kind]} />
              <span>
                {what}
                <span class="hint">
                  {[words.kinds[kind], severity, vm].filter(Boolean).join(" · ")}
                  {at !== undefined && (
                    <>
                      {" · "}
                      <When at={at} />
                    </>
                  )}
                </span>
              </span>
            </a>
          </li>
        ))}
      </ul>
      {needs.length > NEEDS_MAX && <p class="hint">{words.more(needs.length - NEEDS_MAX)}</p>}
    </section>
  );
}
