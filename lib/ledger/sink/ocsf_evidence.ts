/**
 * Subject of a finding, as the objects of OCSF 1.5: the evidence artifacts of a Detection Finding, and the
 * observables that point into it.
 */
import { isAddress } from "../../base/address/mod.ts";
import { type EventProcess, familyOf } from "../../event/mod.ts";
import type { FindingRecord } from "./record.ts";

/** Types of observables in OCSF 1.5. */
const HOSTNAME: ObservableType = [1, "Hostname"];
const IP_ADDRESS: ObservableType = [2, "IP Address"];
const USER_NAME: ObservableType = [4, "User Name"];
const URL_STRING: ObservableType = [6, "URL String"];
const FILE_NAME: ObservableType = [7, "File Name"];
const PROCESS_NAME: ObservableType = [9, "Process Name"];
const PORT: ObservableType = [11, "Port"];
const COMMAND_LINE: ObservableType = [13, "Command Line"];
const PROCESS_ID: ObservableType = [15, "Process ID"];
const USER_CREDENTIAL_ID: ObservableType = [19, "User Credential ID"];
const FILE_PATH: ObservableType = [45, "File Path"];

type ObservableType = [id: number, name: string];
type Fields = Record<string, unknown>;

/** Event that evidence is made of. */
type Subject = Pick<FindingRecord, "common" | "subject" | "vm_name">;

/** Attributes that are observables, by their path in the event. */
const OBSERVED: [path: string, type: ObservableType][] = [
  ["actor.user.name", USER_NAME],
  ["actor.process.name", PROCESS_NAME],
  ["actor.process.cmd_line", COMMAND_LINE],
  ["actor.process.pid", PROCESS_ID],
  ["evidences[0].dst_endpoint.hostname", HOSTNAME],
  ["evidences[0].dst_endpoint.ip", IP_ADDRESS],
  ["evidences[0].dst_endpoint.port", PORT],
  ["evidences[0].http_request.url.url_string", URL_STRING],
  ["evidences[0].query.hostname", HOSTNAME],
  ["evidences[0].file.name", FILE_NAME],
  ["evidences[0].file.path", FILE_PATH],
  ["evidences[0].process.name", PROCESS_NAME],
  ["evidences[0].process.cmd_line", COMMAND_LINE],
  ["evidences[0].data.credential_ref", USER_CREDENTIAL_ID],
];

/**
 * Observables of an event that is otherwise complete: each is the copy of an attribute, and names its path.
 */
export function observablesOf(event: Fields): Fields[] {
  return OBSERVED.flatMap(([name, [type_id, type]]) => {
    const value = attributeAt(event, name);
    return value === undefined || value === "" ? [] : [{ name, type_id, type, value: String(value) }];
  });
}

function attributeAt(event: Fields, path: string): unknown {
  return path.split(/[.[\]]+/).reduce<unknown>((part, key) => (part as Fields | undefined)?.[key], event);
}

/** Types of databases; all others are `Other` with their own name. */
const DATABASE_OTHER = 99;
/** Type of a file whose kind is unknown. */
const FILE_UNKNOWN = 0;

/** The evidence artifact of a finding. */
export function evidenceOf(record: Subject): Fields {
  const { common, subject = {} } = record;
  const { event_id, event_type } = common;
  const family = familyOf(event_type);
  return {
    uid: event_id,
    name: event_type,
    ...ARTIFACTS[family]?.(subject, record),
    ...(!isLocal(family) && { src_endpoint: sourceOf(record) }),
    ...(family === "process"
      ? {}
      : common.process && { process: processOf(common.process, common.session_id) }),
    data: { event_id, event_type, ...subject },
  };
}

/** True for events within the VM; all others are connections and calls of the VM. */
function isLocal(family: string): boolean {
  return family === "file" || family === "process";
}

/** The VM as one end of a connection or call. */
function sourceOf({ common, vm_name }: Subject): Fields {
  return { uid: common.vm_id, ...(vm_name !== undefined && { name: vm_name }) };
}

/** Objects of each family, from the fields that may leave the machine. */
const ARTIFACTS: Partial<Record<string, (subject: Fields, record: Subject) => Fields>> = {
  http: ({ method, scheme, host, port, path, bytes, status, address }) => ({
    ...endpointOf(host, port, scheme, address),
    http_request: clean({
      http_method: method,
      length: bytes,
      // Without the query, which may hold anything.
      url: clean({
        hostname: host,
        path,
        port,
        scheme,
        url_string: host === undefined ? undefined : `${scheme}://${inBrackets(String(host))}${path ?? "/"}`,
      }),
    }),
    ...(status !== undefined && { http_response: { code: status } }),
  }),
  dns: ({ qname, qtype }) => qname === undefined ? {} : { query: clean({ hostname: qname, type: qtype }) },
  db: ({ system, host, port, name }) => ({
    ...endpointOf(host, port, system),
    database: { name: String(name || system), type_id: DATABASE_OTHER, type: String(system) },
  }),
  mcp: ({ method, server_name, tool_name }, { common }) => ({
    api: clean({
      operation: tool_name || (method ?? common.event_type),
      service: server_name === undefined ? undefined : { name: server_name },
    }),
  }),
  model: ({ provider, operation, model }, { common }) => ({
    api: clean({
      operation: operation ?? model ?? common.event_type,
      service: provider === undefined ? undefined : { name: provider },
    }),
  }),
  file: ({ name, path, byte_count }) => ({
    file: clean({
      name: name ?? path ?? "unknown",
      path,
      size: byte_count,
      type_id: FILE_UNKNOWN,
      type: "Unknown",
    }),
  }),
  process: ({ executable, command }, { common }) => ({
    process: clean({ name: executable, uid: common.event_id, cmd_line: command }),
  }),
  sign: ({ kind }, { common }) => ({ api: { operation: kind ?? common.event_type } }),
  credential: ({ host, provider }, { common }) => ({
    ...endpointOf(host),
    api: clean({
      operation: common.event_type,
      service: provider === undefined ? undefined : { name: provider },
    }),
  }),
};

/** @param address of a host that has a name */
function endpointOf(host: unknown, port?: unknown, svc_name?: unknown, address?: unknown): Fields {
  if (host === undefined || host === "") return {};
  const name = String(host);
  const names = isAddress(name) ? { ip: name } : { hostname: name, ip: address };
  return { dst_endpoint: clean({ ...names, port, svc_name }) };
}

function inBrackets(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** The process object. A pid of 0 is one that no one knows; an id of ours takes its place. */
export function processOf(
  { executable, command, pid, ppid, container }: EventProcess,
  session: string,
): Fields {
  return clean({
    name: executable,
    uid: pid > 0 ? undefined : `${session}:${executable}`,
    cmd_line: command === executable ? undefined : command,
    pid: pid > 0 ? pid : undefined,
    parent_process: ppid > 0 ? { pid: ppid } : undefined,
    container: container && partOf(container),
  });
}

/** The container object of OCSF, whose image needs an id: its name is all that there is. */
function partOf({ id, name, image }: NonNullable<EventProcess["container"]>): Fields {
  return clean({ uid: id, name, image: image === undefined ? undefined : { name: image, uid: image } });
}

/** Leaves out unknown attributes. */
function clean(fields: Fields): Fields {
  const set: Fields = {};
  for (const key in fields) if (fields[key] !== undefined) set[key] = fields[key];
  return set;
}
