/**
 * A rule that lets an event pass which was blocked, to begin with: a person reads it, and may
 * change it, before it is saved.
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

/** A rule to allow such an event. */
export function allowing(event: RecordedEvent): { suggested: string; rule: RuleTable } | undefined {
  const match = matchOf(event);
  if (match === undefined) return undefined;
  const name = event.http?.request.host ?? event.dns?.request.qname ?? event.common.event_type;
  const suggested = `allow-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}`.slice(
    0,
    60,
  );
  return { suggested, rule: { action: "allow", match, enabled: true, priority: FIRST } };
}
