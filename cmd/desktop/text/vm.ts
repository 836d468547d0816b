/** Texts of the views of one VM. */
export const work = {
  title: "Work",
  of: (dir: string) => `Work on ${dir}`,
  none: (name: string) => `Nothing was brought into it: sbx push DIR ${name}`,
  again: "Look again",
  nothing: "The VM changed nothing of it.",
  take: (count: number) => count === 0 ? "Take" : `Take ${count} ${count === 1 ? "piece" : "pieces"}`,
  taken: "Taken. What was not chosen stays in the VM.",
  takeFile: (path: string) => `Take all of ${path}`,
  show: (path: string) => `Diff of ${path}`,
  diff: "Diff",
  files: (path: string) => path === "" ? "Changed files" : `Changed files of ${path}`,
  status: { added: "new", modified: "changed", deleted: "deleted", retyped: "of another type" },
  lines: (added: number, removed: number) => `+${added} −${removed}`,
  notable: (by: string) => `run or obeyed by ${by}`,
  piece: (at: number, count: number, path: string) => `Piece ${at} of ${count} of ${path}`,
  cut: "Not all of it is shown; sbx diff shows it.",
  more: (count: number) => `${count} more files: sbx diff --stat`,
  onBranch: (branch: string, path: string) =>
    `It is one commit on the branch ${branch}${path === "" ? "" : ` of ${path}`}. In your repository:`,
  inFolder: (written: number, removed: number) => `${written} files written, ${removed} removed.`,
  conflict: (path: string) => `${path} was changed here too, and stays as it is.`,
};

export const programs = {
  empty: "No program yet.",
  program: "Program",
  pid: "Pid",
  started: "Started",
  ended: "Ended",
  exit: (code: number) => `exit ${code}`,
  blocked: (rule: string) => `blocked by ${rule}`,
  hidden: (count: number, name: string) => `${count} earlier ones: sbx tree ${name}`,
};

export const calls = {
  kind: "Calls of",
  kinds: { model: "Models", mcp: "MCP tools" },
  costs: "Costs",
  noCosts: "No call of a model yet.",
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
    `Budget of the ${layer}, ${limit}: ${used} of ${max}`,
  again: "Count again",
  operation: "Operation",
  status: "Answer",
  tools: "Wants to call",
  arguments: "Arguments",
  result: "Result",
  failed: "Error",
};

export const ports = {
  empty: "No port leads into this VM.",
  guest: "Port in the VM",
  host: "Port of this machine (optional)",
  open: "Open",
  opened: (port: number) => `Port ${port} is open.`,
  closed: (port: number) => `Port ${port} is closed.`,
  address: "Here",
  at: (port: number) => `127.0.0.1:${port}`,
  close: (port: number) => `Close ${port}`,
  actions: "Actions",
};

export const files = {
  path: "Folder",
  root: "/workspace",
  again: "Read again",
  empty: "This folder is empty.",
  name: "Name",
  size: "Bytes",
  modified: "Changed",
  more: (name: string) => `There is more: sbx exec ${name} -- ls /workspace`,
  save: "Save to this machine",
  notShown: "Not shown: it is no text, or too long.",
  contentOf: (path: string) => `Content of ${path}`,
};

export const logs = {
  log: "Log",
  again: "Read again",
  cut: "Only the end of it is shown.",
  empty: "No log yet.",
};
