import {
  BUFFER_KIB,
  CLOCK,
  EVENTS,
  FILTERS,
  INSTANCE,
  OWNER_PROBES,
  PROBES,
  type TraceEvent,
  TRACING,
} from "../../machine/guest/trace/mod.ts";

/**
 * Part of `/init`: functions that prepare the kernel's trace of programs, still switched off. `trace_events` changes the kernel's
 * own code, and runs before an emulated guest has a second processor (cmd/guest/activity/processor.ts); `trace_buffer` mostly
 * waits. Where a part fails, sbx-activity prepares the trace itself, later.
 */
export const TRACE_FUNCTIONS = `trace_events() {
  mount -t tracefs tracefs ${TRACING} && mkdir ${INSTANCE} || return
  echo 0 >${INSTANCE}/tracing_on
${PROBES.map(defined).join("\n")}
  ${OWNER_PROBES.map(defined).join(" ||\n  ").trimStart()}
  for event in ${Object.values(EVENTS).join(" ")}; do echo 1 >${INSTANCE}/events/$event/enable; done
}
trace_buffer() {
  [ -d ${INSTANCE} ] || return
${
  Object.entries(FILTERS).map(([name, filter]) =>
    `  echo '${filter}' >${INSTANCE}/events/${EVENTS[name as TraceEvent]}/filter`
  ).join("\n")
}
  echo ${CLOCK} >${INSTANCE}/trace_clock
  echo ${BUFFER_KIB} >${INSTANCE}/buffer_size_kb
  # Readers are woken for any record, not when half of the buffer is full.
  echo 0 >${INSTANCE}/buffer_percent
}`;

function defined(probe: string): string {
  return `  echo '${probe}' >>${TRACING}/dynamic_events`;
}
