/** Requirements of a recorded event: the rule of a profile that lets it pass. */
import { isPrivateHost } from "../../base/address/mod.ts";
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import type { LabEvent } from "../mod.ts";
import { canName, quote, slug } from "./text.ts";

/** Events that one rule, or a few, can allow: they share the tests and differ in one value. */
export interface Need {
  /** of the rule's id */
  slug: string;
  /** in words, before the values */
  label: string;
  /** CEL, joined by `&&` */
  tests: string[];
  /** field that distinguishes the events; absent: no such field */
  field?: string;
  /** paths are grouped by folders */
  isPath?: boolean;
  value: string;
  /** in words: the parts that the rule does not check */
  open: string;
  /** an event that the rule allows as well, and that was not recorded */
  other: Event;
}

/** Programs that run code from their arguments: only the arguments show their actions. */
const INTERPRETERS = /^(?:.*\/)?(?:ba|da|z|k|a)?sh$|^(?:.*\/)?(?:busybox|python[0-9.]*|node|deno|perl|ruby)$/;

/** Value of a need for arguments that no rule can name; no list as JSON. */
export const ANY_ARGUMENTS = "any";

/** An address that belongs to no host (RFC 5737). */
const PUBLIC_ADDRESS = "203.0.113.9";

/** True for an event that has to pass: an allowed one, or a VM's program or file that needed no decision. */
export function isNeeded({ common, decision }: LabEvent): boolean {
  // The report of guest programs is not a program that a person started.
  const { activity } = common.labels;
  if (activity !== undefined && activity !== "running") return false;
  if (common.event_type === "process.exit" || familyOf(common.event_type) === "credential") return false;
  if (decision !== undefined) return decision === "allow" && common.enforceability === "inline_blockable";
  const family = familyOf(common.event_type);
  return common.actor === "vm" && (family === "process" || family === "file");
}

/** The need of an event; `undefined` when no rule can name it. */
export function needOf(event: Event): Need | undefined {
  const need = NEEDS[familyOf(event.common.event_type)]?.(event);
  if (!need) return undefined;
  // A folder stands for a path that no rule can name, and a list of arguments has been looked at.
  const isNamed = (need.isPath && need.value.startsWith("/")) || need.field === "process.activity.argv" ||
    canName(need.value);
  return isNamed && fixedOf(event).every(canName) ? need : undefined;
}

/** Not of signatures: a person reads each commit, unless a rule that a person wrote decides. */
const NEEDS: Record<string, (event: Event) => Need | undefined> = {
  http,
  dns,
  db,
  mcp,
  model,
  process,
  file,
};

/** Texts of an event that its need names besides the value. */
function fixedOf(event: Event): string[] {
  const fields: Record<string, string[]> = {
    http: ["method", "scheme", "host"].map((name) => `http.request.${name}`),
    dns: ["dns.request.qtype"],
    db: ["db.request.system", "db.request.host", "db.request.user", "db.request.name"],
    mcp: ["mcp.request.method", "mcp.request.server_name"],
    model: ["provider", "api_family", "operation"].map((name) => `model.request.${name}`),
    process: ["process.activity.executable"],
    file: ["file.activity.path_class"],
  };
  const updates = event.http?.request.git?.updates.map(({ ref }) => ref) ?? [];
  return [
    ...fields[familyOf(event.common.event_type)].map((path) => String(valueAt(event, path))),
    ...updates,
  ];
}

const is = (path: string, value: string) => `${path} == ${quote(value)}`;

function http(event: Event): Need | undefined {
  if (!event.http) return undefined;
  const { request } = event.http;
  const { method, scheme, host, port, path, git, ssh } = request;
  const authority = `${host.includes(":") ? `[${host}]` : host}${
    port === (scheme === "http" ? 80 : 443) ? "" : `:${port}`
  }`;
  const does = git ? [git.service, ...git.updates.map(({ kind, ref }) => `${kind} ${ref}`)] : [];
  return {
    slug: slug("http", host, method, ...does.slice(0, 1)),
    label: `${[method, ...does.length ? [`(${does.join(", ")})`] : []].join(" ")} ${scheme}://${authority}`,
    tests: [
      is("http.request.host", host),
      `http.request.port == ${port}`,
      is("http.request.scheme", scheme),
      is("http.request.method", method),
      ...gitTests(git),
      ...(ssh ? [is("http.request.ssh.kind", ssh.kind), is("http.request.ssh.user", ssh.user)] : []),
    ],
    ...(ssh && method === "CONNECT"
      ? { field: "http.request.ssh.command", value: ssh.command }
      : { field: "http.request.path", isPath: true, value: path }),
    open: "any query, headers and body",
    other: { ...event, http: { request: { ...request, query: "sbx-witness" } } },
  };
}

/** Allows a push for its refs only; a request that is not git is never a push. */
function gitTests(git: NonNullable<Event["http"]>["request"]["git"]): string[] {
  if (!git) return ["!has(http.request.git)"];
  const refs = git.updates.map(({ kind, ref }) => `${is("update.kind", kind)} && ${is("update.ref", ref)}`)
    .toSorted();
  return [
    is("http.request.git.service", git.service),
    `http.request.git.updates.all(update, ${refs.length ? [...new Set(refs)].join(" || ") : "false"})`,
  ];
}

function dns(event: Event): Need | undefined {
  if (!event.dns) return undefined;
  const { qtype, qname } = event.dns.request;
  const { response: _, ...asked } = event.dns;
  return {
    slug: slug("dns", qtype),
    label: qtype,
    tests: [is("dns.request.qtype", qtype)],
    field: "dns.request.qname",
    value: qname,
    open: "any program that asks",
    other: {
      ...event,
      common: {
        ...event.common,
        process: { pid: 1, ppid: 0, executable: "sbx-witness", command: "sbx-witness", cwd: "" },
      },
      dns: asked,
    },
  };
}

function db(event: Event): Need | undefined {
  if (!event.db) return undefined;
  const { system, host, port, user, name, kind } = event.db.request;
  return {
    slug: slug("db", system, host),
    label: `${system} at ${host}:${port}`,
    tests: [
      is("db.request.system", system),
      is("db.request.host", host),
      `db.request.port == ${port}`,
      is("db.request.user", user),
      is("db.request.name", name),
    ],
    field: "db.request.kind",
    value: kind,
    open: "any statement of that kind",
    other: {
      ...event,
      db: { request: { ...event.db.request, statement: "", command: "", bytes: 0 } },
    },
  };
}

/** Need of a DNS answer beyond its question: a rule that names each private address in it. */
export function answerNeedOf(event: Event): Need | undefined {
  const { request, response } = event.dns ?? {};
  const addresses = [...new Set(response?.answers.filter(isPrivateHost))].toSorted();
  if (!request || !response || addresses.length === 0 || ![request.qname, ...addresses].every(canName)) {
    return undefined;
  }
  const { qtype, qname } = request;
  return {
    slug: slug("dns-private", qname),
    label: `${qtype} ${qname} at ${addresses.join(", ")}`,
    tests: [
      is("dns.request.qtype", qtype),
      is("dns.request.qname", qname),
      ...addresses.map((address) => `dns.response.answers.exists(answer, answer == ${quote(address)})`),
    ],
    value: "",
    open: "public addresses in the same answer",
    other: {
      ...event,
      dns: { request, response: { ...response, answers: [...response.answers, PUBLIC_ADDRESS] } },
    },
  };
}

function mcp(event: Event): Need | undefined {
  if (!event.mcp) return undefined;
  const { method, server_name, namespaced_tool_name } = event.mcp.request;
  return {
    slug: slug("mcp", server_name, method),
    label: `${method} at ${server_name}`,
    tests: [is("mcp.request.method", method), is("mcp.request.server_name", server_name)],
    field: "mcp.request.namespaced_tool_name",
    value: namespaced_tool_name,
    open: "any arguments",
    other: { ...event, mcp: { request: { ...event.mcp.request, arguments: { "sbx-witness": true } } } },
  };
}

function model(event: Event): Need | undefined {
  if (!event.model) return undefined;
  const { request } = event.model;
  const { provider, api_family, operation } = request;
  return {
    slug: slug("model", provider, operation),
    label: `${operation} of ${provider}`,
    tests: [
      is("model.request.provider", provider),
      is("model.request.api_family", api_family),
      is("model.request.operation", operation),
    ],
    field: "model.request.model",
    value: request.model,
    open: "any content",
    other: { ...event, model: { request: { ...request, messages_count: request.messages_count + 1 } } },
  };
}

/**
 * Test on the mark of sbx's own programs for repositories and folders, which the host gives by their text,
 * also in the guest's reports. One rule allows them with any arguments, and no other shell.
 */
export const OWN_PROGRAMS = "has(common.labels.repository)";

function process(event: Event): Need | undefined {
  if (!event.process) return undefined;
  const { activity } = event.process;
  if (event.common.labels.repository !== undefined) {
    return {
      // Rules of one priority go by id: before a shell's with any arguments, which
      // would allow these programs, too.
      slug: slug("run", "by-sbx"),
      label: "programs of sbx push, diff and pull",
      tests: ['process.activity.operation == "exec"', OWN_PROGRAMS],
      value: "",
      open: "every repository and folder of the VM",
      other: {
        ...event,
        process: { activity: { ...activity, argv: [...activity.argv, "sbx-witness"] } },
      },
    };
  }
  const { executable, argv } = activity;
  const by = ['process.activity.operation == "exec"', is("common.actor", event.common.actor)];
  const who = event.common.actor === "host" ? "of the host" : "of the VM";
  // A shell may run anything: its arguments identify the allowed command.
  if (INTERPRETERS.test(executable)) {
    const isNamed = argv.length > 0 && argv.every(canName) && canName(argv.join());
    return {
      slug: slug("run", event.common.actor, executable),
      label: `${executable} ${who} with arguments`,
      tests: [...by, is("process.activity.executable", executable)],
      field: "process.activity.argv",
      value: isNamed ? JSON.stringify(argv) : ANY_ARGUMENTS,
      open: "any folder",
      other: { ...event, process: { activity: { ...activity, cwd: "/sbx-witness" } } },
    };
  }
  return {
    slug: slug("run", event.common.actor),
    label: `programs ${who}`,
    tests: by,
    field: "process.activity.executable",
    value: executable,
    open: "any arguments and folder",
    other: { ...event, process: { activity: { ...activity, argv: [...argv, "sbx-witness"] } } },
  };
}

function file(event: Event): Need | undefined {
  if (!event.file) return undefined;
  const { activity } = event.file;
  const { operation, path_class, path } = activity;
  const isSecret = path_class === "secret";
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  return {
    slug: slug("file", path_class, operation),
    label: `${operation} of ${path_class} files`,
    tests: [
      is("common.actor", event.common.actor),
      is("file.activity.operation", operation),
      is("file.activity.path_class", path_class),
    ],
    // A file of a harmless class stands for its class, a secret one for itself.
    ...(isSecret && { field: "file.activity.path" }),
    value: isSecret ? path : "",
    open: isSecret ? "any content" : `every path of the class ${path_class}`,
    other: {
      ...event,
      file: {
        activity: isSecret
          ? { ...activity, byte_count: activity.byte_count + 1 }
          : { ...activity, path: `${folder}sbx-witness`, name: "sbx-witness", ext: "" },
      },
    },
  };
}
