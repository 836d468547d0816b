/** Events as a ledger lists them, for tests of what replays them. */
import {
  type EventCommon,
  type EventType,
  fileNameOf,
  type HttpGit,
  pathClass,
} from "../../lib/event/mod.ts";
import type { LabEvent } from "../../lib/lab/mod.ts";
import { eventCommon, httpRequest, processExec } from "./event.ts";

type Made = Record<string, unknown>;

/** An allowed event. */
export function recorded(event_type: EventType, family: Made, common: Partial<EventCommon> = {}): LabEvent {
  return {
    schema_version: 1,
    common: eventCommon(event_type, common),
    ...family,
    decision: "allow",
  } as unknown as LabEvent;
}

export const web = (
  url: string,
  { method = "GET", git }: { method?: string; git?: HttpGit } = {},
): LabEvent => {
  const { protocol, hostname, port, pathname, search } = new URL(url);
  const scheme = protocol.slice(0, -1);
  const request = httpRequest({
    method,
    scheme,
    host: hostname,
    port: Number(port || (scheme === "http" ? 80 : 443)),
    path: pathname,
    query: search.slice(1),
    ...git && { git },
  });
  return recorded("http.request", { http: { request } });
};

export const lookup = (qname: string, answers?: string[]): LabEvent =>
  recorded("dns.query", {
    dns: {
      request: { qname, qtype: "A", transport: "udp" },
      ...answers && { response: { rcode: "NOERROR", answers } },
    },
  });

export const tool = (server_name: string, tool_name: string, method = "tools/call"): LabEvent =>
  recorded("mcp.tool_call", {
    mcp: {
      request: {
        method,
        server_name,
        tool_name,
        namespaced_tool_name: `${server_name}__${tool_name}`,
        arguments: {},
      },
    },
  });

export const call = (model: string): LabEvent =>
  recorded("model.call", {
    model: {
      request: {
        provider: "anthropic",
        api_family: "messages",
        model,
        stream: true,
        operation: "chat",
        messages_count: 1,
        tools_count: 0,
        body: { state: "missing", truncated: false },
      },
    },
  });

export const program = (
  command: string,
  actor: "vm" | "host" = "host",
  argv = command.split(" "),
): LabEvent =>
  recorded("process.exec", { process: { activity: processExec({ executable: argv[0], command, argv }) } }, {
    actor,
    source_engine: "process",
  });

export const touch = (path: string, operation = "read"): LabEvent =>
  recorded("file.activity", {
    file: {
      activity: { operation, path, path_class: pathClass(path), ...fileNameOf(path), byte_count: 1 },
    },
  }, { source_engine: "file" });

const update = (ref: string) => ({ ref, kind: "update" as const, old: "1".repeat(40), new: "2".repeat(40) });

/** A request of git to a repository. */
export const git = (host: string, repository: string, push?: string): LabEvent =>
  web(`https://${host}${repository}/${push ? "git-receive-pack" : "git-upload-pack"}`, {
    method: "POST",
    git: {
      service: push ? "git-receive-pack" : "git-upload-pack",
      updates: push ? [update(push)] : [],
    },
  });
