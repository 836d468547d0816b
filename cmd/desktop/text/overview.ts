/** Texts of the overview. */
export const overview = {
  tiles: {
    label: "Today",
    running: "Running VMs",
    runningOf: (total: number) => `of ${total}`,
    waiting: "Waiting for you",
    oldest: (ago: string) => `oldest ${ago}`,
    none: "nothing waits",
    blocked: "Blocked today",
    blockedOf: (events: number) => `of ${events.toLocaleString("en")} events`,
    cost: "Cost today",
    costOf: (calls: number) => calls === 1 ? "1 call" : `${calls.toLocaleString("en")} calls`,
    unpriced: (calls: number) => `${calls.toLocaleString("en")} without a known price`,
  },
  vms: "VMs",
  hour: "Last hour",
  last: "Last action",
  cost: "Cost",
  findings: "Findings",
  open: (count: number) => `${count} open`,
  noEvent: "Nothing yet",
  /** a graph in words */
  graph: (events: number, blocked: number, asked: number) =>
    events === 0
      ? "No events in the last hour"
      : `${events} events in the last hour, ${blocked} blocked, ${asked} asked about`,
  needs: "Needs you",
  caughtUp: "You're all caught up.",
  times: (title: string, count: number) => `${title} ×${count}`,
  untaken: (name: string, files: number) =>
    `${name} has work to review: ${files === 1 ? "1 file" : `${files} files`}`,
  update: (version: string) => `sbx ${version} is available`,
  held: (name: string) => `${name} is held back after a finding`,
  kinds: { ask: "Ask", finding: "Finding", work: "Work", update: "Update", hold: "Held back" },
  more: (count: number) => `${count} more`,
  dollars: (micros: number) => `$${(micros / 1e6).toFixed(micros > 0 && micros < 10_000 ? 4 : 2)}`,
};
