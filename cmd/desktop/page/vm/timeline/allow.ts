/**
 * Rules to begin with: one that lets an event pass which was blocked, and ones that block hosts.
 * A person reads them, and may change them, before they are saved.
 */
import type { RecordedEvent, RuleTable } from "../../../api/routes.ts";

/** The first priority that a rule of a profile may have. */
const FIRST = 10;

/** Equality in CEL; JSON's texts are texts there too. */
const is = (field: string, value: unknown) => `${field} == ${JSON.stringify(value)}`;

/** Conditions that fit this event and ones like it; undefined for a kind that no rule is suggested for. */
function matchOf({ http, dns, mcp, model, process, file }: RecordedEvent): string | undefined {
  if (http) {
    const { method, host, path } = http.request;
    return [
      is("http.request.method", method),
      is("http.request.host", host),
      is("http.request.path", path),
    ].join(" && ");
  }
  if (dns) return is("dns.request.qname", dns.request.qname);
  if (mcp) {
    const { server_name, tool_name } = mcp.request;
    return [is("mcp.request.server_name", server_name), is("mcp.request.tool_name", tool_name)].join(" && ");
  }
  if (model) return is("model.request.provider", model.request.provider);
  if (process) return is("process.activity.executable", process.activity.executable);
  if (file) return is("file.activity.path", file.activity.path);
}

interface Suggestion {
  suggested: string;
  rule: RuleTable;
}

/** A rule to allow such an event. */
export function allowing(event: RecordedEvent): Suggestion | undefined {
  const match = matchOf(event);
  if (match === undefined) return undefined;
  const name = event.http?.request.host ?? event.dns?.request.qname ?? event.common.event_type;
  return ruleOf("allow", idOf("allow", name), match);
}

/** A rule to block every request to a host. */
export function blocking(host: string): Suggestion {
  return ruleOf("block", idOf("block", host), is("http.request.host", host));
}

/** A rule to block requests to all other hosts. */
export function allowingOnly(hosts: readonly string[]): Suggestion {
  return ruleOf("block", "only-these-hosts", `!(http.request.host in ${JSON.stringify(hosts)})`);
}

/** Most characters of a suggested id. */
const ID_MAX = 60;

function idOf(verb: string, name: string): string {
  return `${verb}-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}`.slice(0, ID_MAX);
}

function ruleOf(action: RuleTable["action"], suggested: string, match: string): Suggestion {
  return { suggested, rule: { action, match, enabled: true, priority: FIRST } };
}
