import type { Event } from "../../../lib/event/mod.ts";

/** The event in a few words: the parts of it that identify it for a person. */
export function subjectOf({ http, dns, mcp, model, file, process, credential }: Event): string {
  if (http) return words(http.request.method, `${http.request.host}${http.request.path}`);
  if (dns) return words(dns.request.qtype, dns.request.qname);
  if (mcp) return words(mcp.request.method, mcp.request.server_name, mcp.request.tool_name);
  if (model) return words(model.request.provider, model.request.model);
  if (file) return words(file.activity.operation, file.activity.path);
  if (process) return words(process.activity.operation, process.activity.command);
  if (credential) return words(credential.substitution.outcome, credential.substitution.provider);
  return "";
}

function words(...parts: unknown[]): string {
  return parts.filter((part) => part !== undefined && part !== "").map(String).join(" ");
}
