/** Every text of the desktop in English; pages have no words of their own. */
import { agents } from "./agents.ts";
import { credentials } from "./credentials.ts";
import { detections } from "./detections.ts";
import { findings } from "./findings.ts";
import { frame, page, palette } from "./frame.ts";
import { images, tasks } from "./images.ts";
import { inbox } from "./inbox.ts";
import { mcp } from "./mcp.ts";
import { costs } from "./costs.ts";
import { overview } from "./overview.ts";
import { rules } from "./rules.ts";
import { status } from "./status.ts";
import { work } from "./work.ts";
import { allFindings, search } from "./search.ts";

/** Texts of the views of one VM. */
const programs = {
  empty: "No program yet.",
  program: "Program",
  pid: "Pid",
  started: "Started",
  ended: "Ended",
  exit: (code: number) => `exit ${code}`,
  runs: "not ended",
  find: "Find a program",
  nothing: "No program that is shown here has this.",
  blocked: (rule: string) => `blocked by ${rule}`,
  inContainer: (name: string) => `in ${name}`,
  newest: (count: number, name: string) =>
    `The newest ${count.toLocaleString("en")} programs; sbx tree ${name} prints all.`,
  older: "Show older ones",
};

const calls = {
  kind: "Calls of",
  kinds: { all: "All", model: "Models", mcp: "Tools" },
  find: "Find in calls",
  conversation: "Calls in order",
  calls: (count: number, hasOlder: boolean) =>
    hasOlder ? `The newest ${count} calls` : count === 1 ? "1 call" : `${count} calls`,
  older: "Show older calls",
  noCalls:
    "No call of a model or tool yet. Prompts, tool calls, tokens and costs stand here once one is made.",
  noneFound: "No call has this.",
  prompt: "Prompt",
  answer: "Answer",
  results: (count: number) =>
    count === 1 ? "With the result of a tool" : `With the results of ${count} tools`,
  tokens: (input = 0, cached = 0, output = 0) =>
    `${input.toLocaleString("en")} in${cached > 0 ? ` (${cached.toLocaleString("en")} cached)` : ""}, ${
      output.toLocaleString("en")
    } out`,
  answered: (status: number) => `HTTP ${status}`,
  request: "Request",
  resultOf: (tool: string) => `Result of ${tool}`,
  costs: "Costs",
  prices: (note: string) => `Costs are ${note}.`,
  model: "Model",
  count: "Calls",
  input: "Input tokens",
  cached: "of these cached",
  output: "Output tokens",
  cost: "Estimated cost",
  dollars: (micros: number | undefined, unpriced: number, basis?: "family" | "dearest" | "unchecked") => {
    if (micros === undefined || micros === 0 && unpriced > 0) return "not known";
    const marks = {
      family: ", its family's price",
      dearest: ", the dearest of its provider",
      unchecked: ", an unchecked price",
    };
    const rest = unpriced > 0 ? `, and ${unpriced} calls without a known price` : "";
    return `$${(micros / 1e6).toFixed(4)}${basis ? marks[basis] : ""}${rest}`;
  },
  budget: (layer: string, limit: string, used: number, max: number) =>
    `Budget of the ${layer}, ${limit}: ${used.toLocaleString("en")} of ${max.toLocaleString("en")}`,
  again: "Count again",
  tools: "Wants to call",
  result: "Result",
  failed: "Error",
};

const ports = {
  empty: "No port leads into this VM.",
  guest: "Port in the VM",
  host: "Port of this machine (optional)",
  any: "any free one",
  open: "Open",
  hint: "A browser of this machine reaches the port of the VM at its address here; no other machine does.",
  connections: "Open connections",
  go: (port: number) => `Open port ${port} of the VM in a new tab`,
  opened: (port: number) => `Port ${port} is open.`,
  closed: (port: number) => `Port ${port} is closed.`,
  address: "Address here",
  at: (port: number) => `127.0.0.1:${port}`,
  close: "Close",
  closeOf: (port: number) => `Close ${port}`,
  actions: "Actions",
};

const files = {
  path: "Folder",
  root: "/workspace",
  again: "Refresh",
  empty: "This folder is empty.",
  name: "Name",
  size: "Size",
  modified: "Changed",
  more: (name: string) => `There is more: sbx exec ${name} -- ls /workspace`,
  save: "Download",
  close: (path: string) => `Close ${path}`,
  notShown: "Not shown: not text, or too long.",
  contentOf: (path: string) => `Content of ${path}`,
};

const logs = {
  log: "Log",
  follow: "Follow",
  again: "Refresh",
  find: "Find in the log",
  matches: (count: number, all: number) =>
    `${count.toLocaleString("en")} of ${all.toLocaleString("en")} lines`,
  none: "No line has this.",
  cut: "Only the end is shown.",
  empty: "No log yet. The console and the VM's process write here once it boots.",
};

/** Texts of the first steps; their commands are the CLI's. */
const firstSteps = {
  title: "First steps",
  progress: (done: number, all: number) => done === all ? "All done." : `${done} of ${all} done`,
  state: { done: "done", next: "next", later: "" },
  here: {
    credentials: "Or add it here",
    images: "Or build it here, without a terminal",
    agents: "Or start one here, without a terminal",
    status: "Or see it here",
  },
  steps: {
    machine: {
      what: "This machine can run VMs",
      why: "sbx doctor lists the missing parts, and the command that installs each.",
      command: "sbx doctor",
      page: "status" as const,
    },
    image: {
      what: "Get the image that VMs boot",
      why:
        "It is built here from Debian's signed packages, once, and used by all VMs. Where your organization has a release channel, sbx update gets it.",
      command: "sbx image build code",
      page: "images" as const,
    },
    credential: {
      what: "Give sbx a key to broker",
      why: "Agents get a reference in its place; the key stays on this machine.",
      command: "sbx credentials add anthropic",
      page: "credentials" as const,
    },
    agent: {
      what: "Start an agent on a folder",
      why: "In a folder of yours: the agent works on a copy in a VM, and sbx pull takes its work back.",
      command: "sbx agent claude .",
      page: "agents" as const,
    },
  },
};

/** Who sent a message of a WebSocket. */
const SIDES = { guest: "sent", upstream: "received" };

/** Texts of the view of a VM's network. */
const network = {
  hosts: "Programs and the hosts that they reach",
  from: (program: string, host: string) => program === "" ? host : `${program} → ${host}`,
  counted: (events: number, blocked: number) =>
    blocked === 0 ? `${events.toLocaleString("en")}` : `${events.toLocaleString("en")}, ${blocked} blocked`,
  others: (count: number) => count === 1 ? "and one more host" : `and ${count} more hosts`,
  show: (host: string) => `Only requests to ${host}`,
  onlyThese: "Allow only these",
  onlyTitle: (profile: string) => `Allow only these hosts in ${profile}`,
  block: "Block this host",
  blockTitle: (host: string, profile: string) => `Block ${host} in ${profile}`,
};

/** Texts of requests and responses. */
const http = {
  request: "Request",
  response: "Response",
  headersOf: (message: string) => `Headers of the ${message.toLowerCase()}`,
  bodyOf: (message: string) => `Body of the ${message.toLowerCase()}`,
  noBody: "No body.",
  state: {
    text: (size: number) => `A text of ${size} bytes, which is not recorded.`,
    binary: (size: number) => `Not text: ${size} bytes.`,
    redacted: (size: number) => `Left out of the record: ${size} bytes.`,
  },
  cut: "Only a part is shown.",
  messages: "Messages",
  messagesMissing: (count: number) => `${count} more had no room in the record.`,
  message: (ms: number, from: "guest" | "upstream") => `${(ms / 1000).toFixed(1)} s, ${SIDES[from]}`,
};

export const text = {
  app: { name: "sbx", skip: "Skip to the page", navigation: "Pages" },
  page,
  frame,
  palette,
  costs,
  overview,
  search,
  allFindings,
  connection: {
    connecting: "Connecting…",
    offline: "sbx isn't running, or doesn't answer. Run sbx start; this page reconnects automatically.",
  },
  signIn: {
    title: "Not signed in",
    how:
      "This browser is not signed in. Run this command on the machine of sbx, and open the address that it prints:",
    command: "sbx desktop --print-url",
    stranger:
      "The program at this address is not the sbx that this browser signed in to: sbx was started again, or another program has its port. This page sent it nothing.",
  },
  common: {
    cancel: "Cancel",
    close: "Close",
    copy: "Copy",
    copied: "Copied.",
    none: "—",
    loading: "Loading…",
    dismiss: "Dismiss",
    draft: "Your draft is not saved.",
    keepWriting: "Keep writing",
    discardDraft: "Discard it",
  },
  sessions: {
    create: "New VM",
    empty: "No VM yet. Create one, or run sbx create.",
    past: "Past sessions",
    findPast: "Search past sessions",
    morePast: (count: number) => `Show all ${count}`,
    noPast: "No past session has this name.",
    name: "Name",
    state: "State",
    profile: "Profile",
    agent: "Agent",
    size: "Size",
    sizes: (cpus: number, ramMb: number) =>
      `${cpus} ${cpus === 1 ? "CPU" : "CPUs"} · ${
        ramMb % 1024 === 0 ? `${ramMb / 1024} GiB` : `${ramMb} MiB`
      }`,
    active: "Last activity",
    by: "Started by",
    moreFor: (name: string) => `More for ${name}`,
    actions: "Actions",
    ended: "Ended",
    started: "Started",
    table: "VMs",
    allVms: (count: number) => `All ${count} VMs`,
    open: (name: string) => `Open ${name}`,
    action: {
      start: "Start",
      stop: "Stop",
      pause: "Pause",
      resume: "Resume",
      suspend: "Suspend",
      fork: "Fork",
      save: "Keep",
      delete: "Delete",
    },
    actionOn: (action: string, name: string) => `${action} ${name}`,
    done: {
      start: (name: string) => `${name} starts.`,
      stop: (name: string) => `${name} is stopped.`,
      pause: (name: string) => `${name} is paused.`,
      resume: (name: string) => `${name} runs again.`,
      suspend: (name: string) => `${name} is suspended.`,
      fork: (name: string) => `${name} is forked.`,
      save: (name: string) => `${name} is kept when it stops.`,
      delete: (name: string) => `${name} is deleted.`,
    },
    created: (name: string) => `${name} boots.`,
    deleteTitle: (name: string) => `Delete ${name}?`,
    deleteLoss:
      "Its disk, workspace and snapshots are deleted; sbx restore brings them back within a day where the disk " +
      "has room. The record of its sessions stays.",
    deleteAnyway: "Delete anyway",
    deleteRuns: "It is running: its programs end at once.",
  },
  create: {
    title: "New VM",
    name: "Name (optional)",
    profile: "Profile",
    cpus: "Processors",
    ram: "Memory in MiB",
    persistent: "Keep after it stops",
    noImage: (name: string) => `${name} (no image yet)`,
    needsImage: "This profile has no image to boot. Build it, or choose another one:",
    imageCommand: (id: string) => `sbx image build ${id}`,
    keyOf: (provider: string) => `Key of ${provider}`,
    lastKey: "The one added last",
    submit: "Create",
    source: {
      title: "Workspace",
      name: {
        empty: "Empty",
        repository: "A git repository",
        live: "A folder of this machine, live",
        copy: "A copy of a folder of this machine",
      },
      url: "Address of the repository",
      urlHint: "It is cloned in the VM, under the rules of its profile.",
      dir: "Path of the folder",
      dirHint: "The VM reads and writes the folder itself; files that look like secrets are hidden from it.",
      copyHint: "A copy is made by this command in the folder; sbx pull takes the work back.",
      copyCommand: "sbx create --from-dir .",
      failed: (reason: string) => `The VM runs, but the repository was not cloned: ${reason}`,
    },
  },
  inbox,
  http,
  settings: {
    search: "Search settings",
    sections: "Sections",
    onlyChanged: "Only changed settings",
    save: (count: number) => `Save ${count === 1 ? "one change" : `${count} changes`}`,
    discard: "Discard",
    saved: "Saved.",
    refused: (count: number) =>
      `Nothing was saved: ${count === 1 ? "one setting needs" : `${count} settings need`} another value.`,
    issues: "Problems",
    locked: "Locked by your organization",
    fromUser: "Changed by you",
    reset: "Reset",
    resetOf: (name: string) => `Reset ${name}`,
    reveal: "Reveal",
    hide: "Hide",
    path: "Path",
    content: "Content",
    add: "Add",
    remove: (value: string) => `Remove ${value}`,
    newValue: (name: string) => `New value of ${name}`,
    nothing: "No setting matches.",
    action: { check_update: "Check now", preset_select: "Choose" },
    checked: "Checked.",
    explain: "Explain",
    explainOf: (name: string) => `Explain ${name}`,
    form: (id: string, form: string) => `${id}: ${form}`,
    layers: "Layers, the strongest first",
    layer: "Layer",
    layerName: { default: "Default", user: "You", corp: "Organization" },
    value: "Value",
    place: "Place",
    wins: "active",
    lockedAt: (place: string) => `Locked by your organization: ${place}`,
    switchedBy: (id: string, enabled: boolean, place: string) =>
      `Switched ${enabled ? "on" : "off"} by ${id} (${place})`,
  },
  vm: {
    terminal: "Terminal",
    timeline: "Timeline",
    changes: "Work",
    findings: "Findings",
    programs: "Programs",
    requests: "Network",
    calls: "Models and tools",
    files: "Files",
    ports: "Ports",
    logs: "Logs",
    tabs: (name: string) => `Views of ${name}`,
    gone: (name: string) => `There is no VM ${name}.`,
    all: "All VMs and past sessions",
    goneSession: (id: string) => `There is no session ${id}.`,
    isPast: "Ended · read only",
    notRunning: "The VM is not running.",
  },
  evidence: {
    verify: "Verify",
    verifying: "Checking every event…",
    certify: "Certificate",
    certifying: "Signing a certificate…",
    certified: (name: string) => `${name} is saved. sbx certify --verify checks it anywhere, offline.`,
    save: "Export events",
    saving: (count: number) => `${count.toLocaleString("en")} events…`,
    valid: (events: number) => `Valid: ${events.toLocaleString("en")} events as recorded.`,
    invalid: (events: number, reason = "unknown reason") =>
      `Invalid after ${events.toLocaleString("en")} valid events: ${reason}`,
    witnessed: (events: number) => `The service has witnessed it up to event ${events.toLocaleString("en")}.`,
    notSealed: (witnessed?: number) =>
      `Not sealed: ${
        witnessed === undefined
          ? "its end is not proven."
          : `it is proven up to event ${witnessed.toLocaleString("en")}, which the service has witnessed.`
      } A record is sealed when its VM stops.`,
    notSigned: "The seal is not signed.",
    signed: ({ id, trusted }: { id: string; trusted: boolean }) =>
      trusted ? `The seal is signed by ${id}.` : `The seal is signed by ${id}, a key that is not known here.`,
  },
  work,
  programs,
  calls,
  network,
  ports,
  files,
  logs,
  rules,
  detections,
  findings,
  mcp,
  credentials,
  agents,
  images,
  tasks,
  firstSteps,
  terminal: {
    of: (name: string) => `Terminal of ${name}`,
    all: "Terminals",
    main: "Main",
    numbered: (number: number) => `Terminal ${number}`,
    name: "Name",
    rename: "Rename",
    renameTitle: (name: string) => `Rename ${name}`,
    close: "Close",
    closeTitle: (name: string) => `Close ${name}?`,
    closeLoss: "The programs in it end.",
    add: "New terminal",
    refused: (reason: string) => `The terminal was not opened: ${reason || "policy does not allow it"}`,
    find: "Find in the terminal",
    over: "The terminal ended.",
    lost: "The connection is lost; its programs run on. Reconnecting…",
    again: "Open it again",
    links: "Ctrl+Shift+C copies, Ctrl+Shift+V pastes. Ctrl+] leaves the terminal; Ctrl+click opens a link.",
  },
  timeline: {
    list: "Events",
    grep: "Search events",
    family: "Family",
    decision: "Decision",
    any: "any",
    time: "Time",
    event: "Event",
    rule: "Rule",
    more: "Load more",
    empty: "No events.",
    why: "Why",
    decisions: { allow: "Allowed", ask: "Waits", block: "Blocked", rewrite: "Rewritten" } as Record<
      string,
      string
    >,
    by: (layer: string, rule: string) =>
      layer === "none"
        ? "no rule matched"
        : `by ${
          { profile: "your", corp: "your organization's", default: "sbx's" }[layer] ?? "the"
        } rule ${rule}`,
    layers: { label: "Rules decide in this order", corp: "Organization", profile: "Profile", default: "sbx" },
    editRule: "Edit rule",
    allowThis: "Allow this",
    allowTitle: (profile: string) => `Allow this in ${profile}`,
    repeats: (isOpen: boolean) => isOpen ? "Show as one line" : "Show each of them",
    fields: "All fields",
    graph: {
      label: (events: number, blocked: number, findings: number) =>
        `${events} events over time, ${blocked} blocked${
          findings > 0 ? `, ${findings} times with findings` : ""
        }`,
      finding: (severity: string, title: string) => `${severity}: ${title}`,
      asked: (count: number) => count === 1 ? "1 ask waits" : `${count} asks wait`,
      hint: "Draw over a part to see it alone",
      whole: "Show all",
    },
    at: (file: string, line: number | undefined) => line === undefined ? file : `${file}:${line}`,
    place: "Place of the rule",
    matched: "Matched",
    nearMisses: "Near misses",
    remedy: "How to allow it",
    findings: "Findings",
    count: (count: number) => count === 1 ? "1 event" : `${count.toLocaleString("en")} events`,
    newest: (count: number) => `The newest ${count.toLocaleString("en")} events; scroll down for older ones`,
    full: (count: number) =>
      `The newest ${
        count.toLocaleString("en")
      } events are shown. Older ones are left out: narrow the search.`,
    select: "Choose an event to see the reasons for its decision.",
    whole: "Whole event",
    choose: "Choose an event to see all of it.",
  },
  changes: {
    snapshots: "Snapshots",
    make: "Make a snapshot",
    made: "The snapshot is made.",
    since: "Changes since",
    none: "No snapshot yet.",
    noChanges: "Nothing changed since this snapshot.",
    undo: (count: number) => count === 0 ? "Put everything back" : `Put back ${count} chosen`,
    undone: "Put back. The workspace as it was is a snapshot too.",
    choose: (path: string) => `Choose ${path}`,
    path: "Path",
    change: "Change",
    size: "Size",
    label: (id: string, when: string) => `${when} (${id})`,
    undoLast: "Undo the last change",
  },
  status,
};
