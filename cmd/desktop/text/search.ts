/** Texts of the search over all sessions, and of their findings. */
export const search = {
  field: "Host, path, program, hash or reference",
  submit: "Search",
  decision: "Decision",
  any: "any",
  period: "Time",
  periods: { hour: "Last hour", day: "Last 24 hours", week: "Last 7 days", month: "Last 30 days" },
  decisions: { allow: "Allowed", ask: "Asked", block: "Blocked" },
  start: "Search the records of all sessions, of deleted VMs too.",
  nothing: "No event in this time matches.",
  graph: (events: number, blocked: number) => `${events} events over time, ${blocked} blocked`,
  count: (events: number, vms: number) =>
    `${events.toLocaleString("en")} ${events === 1 ? "event" : "events"} in ${vms} ${
      vms === 1 ? "VM" : "VMs"
    }`,
  newest: (shown: number) => `The newest ${shown} are listed.`,
  unreadable: (count: number) =>
    count === 1
      ? "The record of one session cannot be read."
      : `The records of ${count} sessions cannot be read.`,
  results: (vm: string) => `Events of ${vm}`,
  time: "Time",
  event: "Event",
  subject: "Subject",
};

export const allFindings = {
  about: "Findings of all sessions in the last 30 days. They are acknowledged and closed in their VM.",
  severity: "At least",
  severities: { info: "any severity", low: "low", medium: "medium", high: "high", critical: "critical" },
  shown: "Show",
  states: { open: "Open", all: "All" },
  empty: "No finding waits for you.",
  count: (count: number) => count === 1 ? "1 finding" : `${count.toLocaleString("en")} findings`,
  truncated: "Only the oldest 10,000 are shown: sbx findings --all lists the rest.",
  vm: "VM",
};
