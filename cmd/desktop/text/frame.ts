/** Texts of the frame: navigation, the command palette, and the list of pages on a narrow window. */
export const frame = {
  search: "Go to",
  searchKeys: "Ctrl K",
  vms: "VMs",
  newVm: "New VM",
  govern: "Govern",
  collapse: "Collapse the sidebar",
  expand: "Expand the sidebar",
  more: "More",
};

/** Names of pages; addresses keep their older words. */
export const page = {
  overview: "Overview",
  findings: "Findings",
  search: "All sessions",
  inbox: "Inbox",
  sessions: "VMs",
  costs: "Costs",
  agents: "Agents",
  images: "Images",
  rules: "Rules",
  detections: "Detections",
  mcp: "Tools",
  credentials: "Credentials",
  settings: "Settings",
  status: "Health",
  more: "More",
};

export const palette = {
  title: "Go to or do",
  hint: "A VM, a page, a rule, a setting, an action…",
  found: "Found",
  nothing: (typed: string) => `Nothing is named “${typed}”.`,
  ask: "Ask",
  page: "Page",
  vm: "VM",
  rule: "Rule",
  setting: "Setting",
  action: "Action",
};
