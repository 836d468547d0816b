/** The events that a lasting answer covers: exactly those that its question names (docs/contracts.md §5, "Asks"). */
import { type Event, familyOf } from "../../event/mod.ts";
import { type DecidingRule, updatesLine } from "../decision/mod.ts";
import { COVERS_MAX } from "./limit.ts";

/** Scope of an answer for minutes or the session. */
export interface AskScope {
  /** equal for the events that one answer covers */
  key: string;
  /** the scope on one line, shown whole: everything in the key that a guest chose, and what may differ */
  covers: string;
}

/** Identifying fields of an event, and their text. */
type Named = { fields: unknown[]; covers: string };

/**
 * Scope of an answer to the ask of a rule about an event; `undefined` for an event whose scope is too long to be read:
 * its ask can be answered once only. Events that differ in a secret only have scopes of their own, with one text.
 *
 * @param shown the event with refs in place of secrets
 */
export function scopeOf(
  event: Event,
  { layer, id, reason, name }: DecidingRule,
  shown = event,
): AskScope | undefined {
  const { event_type } = event.common;
  const nameIn = NAMED[familyOf(event_type)];
  const named = nameIn?.(event);
  const covers = shown === event ? named?.covers : nameIn?.(shown)?.covers;
  if (!named || covers === undefined || covers.length > COVERS_MAX) return undefined;
  return {
    covers,
    key: JSON.stringify([layer, id, reason ?? name, event_type, ...named.fields]),
  };
}

const NAMED: Record<string, (event: Event) => Named | undefined> = {
  http: ({ http }) => {
    const { method, scheme, host, port, path, git } = http?.request ?? {};
    if (!host) return undefined;
    const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    const updates = git?.updates?.map(({ kind, ref }) => ({ kind, ref })) ?? [];
    const refs = updates.length > 0 ? `, which does ${updatesLine(updates)}` : "";
    return {
      fields: [method, scheme, host, port, path, ...(git ? [git.service, updates] : [])],
      covers: method === "CONNECT"
        ? `${method} ${scheme}://${authority}`
        : `${method} ${scheme}://${authority}${path}${refs}, with any query, headers and body`,
    };
  },
  dns: ({ dns }) =>
    dns &&
    { fields: [dns.request.qtype, dns.request.qname], covers: `${dns.request.qtype} ${dns.request.qname}` },
  mcp: ({ mcp }) => {
    if (!mcp) return undefined;
    const { method, server_name, tool_name, namespaced_tool_name } = mcp.request;
    const what = namespaced_tool_name || server_name;
    return {
      fields: [method, server_name, tool_name, namespaced_tool_name],
      covers: `${method}${what && ` ${what}`}, with any arguments`,
    };
  },
  model: ({ model }) => {
    if (!model) return undefined;
    const { provider, api_family, model: name, operation } = model.request;
    return {
      fields: [provider, api_family, name, operation],
      covers: `${provider} ${name} ${operation}, with any content`,
    };
  },
  file: ({ file }) =>
    file && {
      fields: [file.activity.operation, file.activity.path],
      covers: `${file.activity.operation} ${file.activity.path}, with any content`,
    },
  process: ({ process }) => {
    if (!process) return undefined;
    const { operation, executable, command, argv, cwd } = process.activity;
    return {
      fields: [operation, executable, command, argv, cwd],
      covers: `${operation} ${command} in ${cwd}`,
    };
  },
};
