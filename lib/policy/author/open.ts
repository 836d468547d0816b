/**
 * Parts of events that an allow does not read, and so leaves open: each is proved by an event that it allows.
 */
import type { Event, EventType, PolicyContext } from "../../event/mod.ts";
import { type CompiledRule, withValue } from "../engine/compile.ts";
import type { Condition, Probe } from "../engine/condition.ts";
import type { Policy } from "../engine/policy.ts";

/** A part of an event of one type. */
interface Part {
  /** after "any" */
  name: string;
  /** fields of it, and fields that are read of them: a rule that reads one does not leave the part open */
  fields: string[];
  /** another value of each field */
  other: Record<string, unknown>;
}

const WORD = "sbx-lint";

/** Parts that a rule's author may overlook, as `sbx learn` names them. */
const PARTS: Partial<Record<EventType, Part[]>> = {
  "http.request": [
    {
      name: "host",
      fields: ["http.request.host", "http.request.url"],
      other: { "http.request.host": `${WORD}.example` },
    },
    { name: "method", fields: ["http.request.method"], other: { "http.request.method": "DELETE" } },
    {
      name: "path",
      fields: ["path", "raw_path", "path_class", "url", "git", "grpc", "aws", "ssh"].map((name) =>
        `http.request.${name}`
      ),
      other: { "http.request.path": `/${WORD}` },
    },
    {
      name: "query",
      fields: ["http.request.query", "http.request.url"],
      other: { "http.request.query": WORD },
    },
    {
      name: "headers",
      fields: ["http.request.headers"],
      other: { "http.request.headers": { [WORD]: [WORD] } },
    },
    {
      name: "body",
      fields: ["http.request.body", "http.request.bytes"],
      other: { "http.request.body": { state: "text", text: WORD, truncated: false } },
    },
  ],
  "dns.query": [{
    name: "name",
    fields: ["dns.request.qname"],
    other: { "dns.request.qname": `${WORD}.example` },
  }],
  "db.statement": [
    {
      name: "statement",
      fields: ["kind", "command", "statement"].map((name) => `db.request.${name}`),
      other: { "db.request.statement": WORD },
    },
  ],
  "mcp.tool_call": [
    {
      name: "tool",
      fields: ["tool_name", "namespaced_tool_name"].map((name) => `mcp.request.${name}`),
      other: { "mcp.request.tool_name": WORD, "mcp.request.namespaced_tool_name": `${WORD}__${WORD}` },
    },
    {
      name: "arguments",
      fields: ["mcp.request.arguments"],
      other: { "mcp.request.arguments": { [WORD]: WORD } },
    },
  ],
  "model.call": [
    { name: "model", fields: ["model.request.model"], other: { "model.request.model": WORD } },
    {
      name: "messages",
      fields: ["model.request.body", "model.request.messages_count"],
      other: { "model.request.messages_count": 1 },
    },
  ],
  "process.exec": [
    {
      name: "program",
      fields: ["process.activity.executable", "process.activity.command"],
      other: { "process.activity.executable": `/${WORD}` },
    },
    {
      name: "arguments",
      fields: ["process.activity.argv", "process.activity.command"],
      other: { "process.activity.argv": [WORD] },
    },
    { name: "folder", fields: ["process.activity.cwd"], other: { "process.activity.cwd": `/${WORD}` } },
  ],
  "file.activity": [
    {
      name: "operation",
      fields: ["file.activity.operation"],
      other: { "file.activity.operation": "rename" },
    },
    {
      name: "path",
      fields: ["path", "path_class", "name", "ext"].map((name) => `file.activity.${name}`),
      other: { "file.activity.path": `/${WORD}` },
    },
  ],
};

/** Ends of values that stay open where a rule tests a beginning or an end. */
const AFFIXES: Partial<Record<EventType, [path: string, name: string][]>> = {
  "http.request": [["http.request.host", "host"], ["http.request.path", "path"]],
  "dns.query": [["dns.request.qname", "name"]],
  "process.exec": [["process.activity.executable", "program"]],
  "file.activity": [["file.activity.path", "path"]],
};

/** Most beginnings and ends of values that are named. */
const AFFIXES_MAX = 3;

/** Events that a rule also allows, in words, and one of them. */
export interface Open {
  words: string;
  witness: PolicyContext;
}

/**
 * @param witness an event that the rule matches
 * @returns `undefined` for a rule that leaves nothing open, or that decides otherwise
 */
export function openOf(
  { rule, paths }: CompiledRule,
  condition: Condition,
  witness: PolicyContext | undefined,
  policy: Policy,
): Open | undefined {
  if (rule.action !== "allow" || !witness) return undefined;
  const type = witness.common.event_type as EventType;
  const isAllowed = (event: Event) => {
    const { decision, rule: by } = policy.evaluate(event).decision;
    return decision === "allow" && by.id === rule.id && by.layer === rule.layer;
  };
  const base = completed(witness);
  if (!isAllowed(base)) return undefined;
  const reads = (field: string) => paths.some((path) => path === field || path.startsWith(`${field}.`));
  const parts = (PARTS[type] ?? []).filter(({ fields }) => !fields.some(reads))
    .filter(({ other }) => isAllowed(changed(base, other)));
  const affixes = (AFFIXES[type] ?? []).flatMap(([path, name]) =>
    affixesIn(condition, path).flatMap(({ op, value }) => {
      // A domain is tested by its end too, and leaves only names below it open.
      const ends = op === "prefix" ? [value] : [value, `.${value}`];
      for (const end of ends) {
        const event = changed(base, { [path]: op === "prefix" ? `${end}${WORD}` : `${WORD}${end}` });
        const text = `every ${name} that ${op === "prefix" ? "begins with" : "ends in"} ${end}`;
        if (isAllowed(event)) return [{ text, event }];
      }
      return [];
    }).slice(0, AFFIXES_MAX)
  );
  if (parts.length + affixes.length === 0) return undefined;
  const all = parts.reduce((event, { other }) => changed(event, other), affixes.at(-1)?.event ?? base);
  const names = parts.map(({ name }) => name);
  const last = names.length > 1 ? ` and ${names.pop()}` : "";
  const any = names.length > 0 ? [`any ${names.join(", ")}${last}`] : [];
  // Together they may meet another rule; each one alone does not.
  const proof = isAllowed(all) ? all : parts.length > 0 ? changed(base, parts[0].other) : affixes[0].event;
  return {
    words: [...affixes.map(({ text }) => text), ...any].join(", "),
    witness: { ...proof, common: witness.common } as PolicyContext,
  };
}

function changed(event: Event, values: Record<string, unknown>): Event {
  return Object.entries(values).reduce((result, [path, value]) => withValue(result, path, value), event);
}

function completed(witness: PolicyContext): Event {
  const common = { labels: {}, event_id: "000000000000" };
  return { ...witness, common: { ...common, ...witness.common } } as unknown as Event;
}

/** Beginnings and ends that a condition tests of a field, outside negations. */
function affixesIn(condition: Condition, path: string): { op: "prefix" | "suffix"; value: string }[] {
  if (condition.kind === "and" || condition.kind === "or") {
    return condition.parts.flatMap((part) => affixesIn(part, path));
  }
  if (condition.kind !== "test") return [];
  return condition.probes.flatMap((probe: Probe) =>
    probe.path === path && (probe.op === "prefix" || probe.op === "suffix")
      ? probe.values.map((value) => ({ op: probe.op as "prefix" | "suffix", value: String(value) }))
      : []
  );
}
