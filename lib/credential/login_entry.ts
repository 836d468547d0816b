/** Entries of the secrets of a login at an MCP server. */
import type { LoginPart, LoginPlace, LoginTerms, StoredEntry } from "./entry.ts";
import { refOf } from "./ref.ts";

/** A secret of a login that is to be stored. */
export interface NewLoginSecret {
  part: LoginPart;
  secret: string;
  /** of the access token */
  terms?: LoginTerms;
}

export function isSamePlace(a: LoginPlace, b: LoginPlace): boolean {
  return a.profile === b.profile && a.server === b.server && a.url === b.url;
}

/** The access token is for the server's host; what renews it is for no host, so that no request can carry it. */
export function loginEntry(place: LoginPlace, { part, secret, terms }: NewLoginSecret): StoredEntry {
  const { profile, server, url } = place;
  const { hostname, port, protocol } = new URL(url);
  return {
    ref: refOf("mcp", secret),
    provider: "mcp",
    label: `${part === "client" ? "client secret" : `${part} token`} of ${server} in ${profile}`.slice(
      0,
      128,
    ),
    hosts: part === "access" ? [`${hostname}:${port || (protocol === "http:" ? 80 : 443)}`] : [],
    created_at: new Date().toISOString(),
    source: "added",
    login: { profile, server, url, part, ...(terms && { terms }) },
  };
}
