/** Texts of findings. */
const OUTCOMES: Record<string, string> = {
  allow: "allowed",
  block: "blocked",
  ask: "waiting",
  observed: "only recorded",
};

/** Answers to findings. */
const HELD: Record<string, string> = {
  snapshot: "A snapshot of its files was ordered",
  ask: "Its network asks first",
  block: "Its network is blocked",
  pause: "It is paused",
  suspend: "It is suspended",
};

export const findings = {
  empty: { all: "No findings.", some: "You're all caught up: no finding is in this state." },
  title: "Finding",
  severity: "Severity",
  decision: "Decision",
  subject: "Event",
  time: "Time",
  actions: "Actions",
  state: "State",
  states: {
    open: "New",
    acknowledged: "Acknowledged",
    closed: "Closed",
    excepted: "Excepted",
    all: "All",
  },
  count: (count: number, hasOlder: boolean) =>
    hasOlder ? `The newest ${count.toLocaleString("en")} findings` : `${count.toLocaleString("en")} findings`,
  more: "Load older findings",
  times: (count: number) => `×${count}`,
  together: "Findings that belong together",
  outcomes: (outcome: string, by: string | undefined) => {
    const word = OUTCOMES[outcome] ?? outcome;
    return by === undefined ? word : `${word} by ${by}`;
  },
  acknowledge: "Acknowledge",
  acknowledgeOf: (title: string) => `Acknowledge ${title}`,
  acknowledged: (count: number) => count === 1 ? "Acknowledged." : `${count} findings are acknowledged.`,
  close: "Close…",
  closeOf: (title: string) => `Close ${title}`,
  closed: (count: number) => count === 1 ? "Closed." : `${count} findings are closed.`,
  verdict: "Verdict",
  verdicts: {
    "true-positive": "True positive",
    "false-positive": "False positive",
    accepted: "Accepted",
  },
  reason: "Reason",
  life: (state: string, verdict?: string, by?: string, reason?: string) =>
    [verdict ? `${state}: ${verdict}` : state, by && `by ${by}`, reason].filter(Boolean).join(", "),
  except: "Except…",
  exceptOf: (title: string) => `Except ${title}`,
  excepted: (id: string) => `The exception ${id} is active.`,
  sameOf: "Where these agree",
  properties: { host: "the host", program: "the program", vm: "the VM" },
  needsProperty: "Choose at least one of host, program and VM.",
  days: "Days",
  exceptions: "Exceptions",
  rule: "Rule",
  by: "By",
  until: "Until",
  placeOf: (of: Record<string, string | undefined>) =>
    Object.entries(of).filter(([, value]) => value !== undefined).map((pair) => pair.join(" ")).join(", "),
  isExpired: (when: string) => `expired ${when}`,
  removeException: (rule: string) => `Remove the exception from ${rule}`,
  removeQuestion: (rule: string) => `Remove the exception from ${rule}?`,
  removeLoss: "Findings that it covers are new again.",
  exceptionRemoved: (id: string) => `The exception ${id} is removed.`,
  held: {
    title: (vm: string) => `A finding holds ${vm} back`,
    action: (action: string, by: string) =>
      `${HELD[action] ?? action}${by === "corp" ? " (corp.toml)" : ""}.`,
    since: (date: string) => `Since ${date}`,
    findings: "All findings",
    lift: (vm: string) => `Lift it from ${vm}`,
    question: (vm: string) => `Let ${vm} go on?`,
    loss:
      "Its programs reach the network again, as far as its rules allow. The record says that you lifted it.",
    lossStill: "It may be started and resumed again, with its network. The record says that you lifted it.",
    lifted: (vm: string, isStill: boolean) =>
      isStill ? `${vm} is not held back any more: resume it.` : `${vm} is not held back any more.`,
  },
};
