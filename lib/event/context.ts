import { canonicalHost } from "../base/address/mod.ts";
import type { PolicyContext } from "./schema.ts";

type Headers = Record<string, string[]>;

/**
 * A context from outside as events are written (docs/design/contracts/05-policy.md §5): header names in lower
 * case, hosts and DNS names canonical. Parts without a change are shared with the context given.
 */
export function normalizeContext<T extends Partial<PolicyContext>>(context: T): T {
  const { request, response } = context.http ?? {};
  const host = plainHost(request?.host);
  const qname = plainHost(context.dns?.request?.qname);
  const headers = plainNames(request?.headers as Headers | undefined);
  const answered = plainNames(response?.headers as Headers | undefined);
  let copy = context;
  if (host !== request?.host || headers !== request?.headers) {
    const changes = { ...(host !== undefined && { host }), ...(headers && { headers }) };
    copy = { ...copy, http: { ...copy.http, request: { ...request, ...changes } } };
  }
  if (answered !== response?.headers) {
    copy = { ...copy, http: { ...copy.http, response: { ...response, headers: answered } } };
  }
  if (qname !== context.dns?.request?.qname) {
    copy = { ...copy, dns: { ...copy.dns, request: { ...context.dns?.request, qname } } };
  }
  return copy;
}

function plainHost(host: string | undefined): string | undefined {
  return typeof host === "string" ? canonicalHost(host) ?? host.toLowerCase() : host;
}

/** Names that differ in case only are one header. */
function plainNames(headers: Headers | undefined): Headers | undefined {
  if (!headers || Object.keys(headers).every((name) => name === name.toLowerCase())) return headers;
  const plain = new Map<string, string[]>();
  for (const [name, values] of Object.entries(headers)) {
    const key = name.toLowerCase();
    plain.set(key, [...(plain.get(key) ?? []), ...values]);
  }
  return Object.fromEntries(plain);
}
