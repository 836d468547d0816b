/**
 * The network that an E2B client asks for, as rules that can only take away (docs/guides/project-file.md).
 */
import type { CreateRequest } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

/** E2B's name of all addresses. */
const ALL = "0.0.0.0/0";
/** Names that one sandbox may list. */
const NAMES_MAX = 40;

const HOST = /^(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** A name that resolvers read as an address: its last label is a number, decimal or hexadecimal. */
const ADDRESS = /(^|\.)(\d+|0x[0-9a-f]*)$/;

/** Fields of a request that sbx has rules for. */
export interface Network {
  allowOut?: string[];
  denyOut?: string[];
}

/** Blocking rules for a client's denials; undefined without any. @throws {SbxError} `request.unsupported` */
export function networkRules(
  allowsInternet: boolean,
  { allowOut = [], denyOut = [] }: Network,
): CreateRequest["project"] {
  const denied = allowsInternet ? denyOut : [ALL, ...denyOut];
  if (denied.length === 0) return undefined;
  const address = denied.find((name) => ADDRESS.test(name.toLowerCase()));
  if (address !== undefined && !denied.includes(ALL)) {
    throw new SbxError("request.unsupported", `sbx cannot deny the network address "${address}" alone`, {
      hint: `a name that leads to it would pass: deny ${ALL} and allow hosts`,
    });
  }
  // All of the traffic of a guest but DNS is HTTP or begins with a CONNECT.
  const [http, dns] = ["http.request.host", "dns.request.qname"].map((field) => {
    const except = allowOut.filter((name) => name !== ALL).map((name) => matches(field, name));
    const hit = denied.includes(ALL)
      ? `has(${field})`
      : `has(${field}) && (${denied.map((name) => matches(field, name)).join(" || ")})`;
    return except.length === 0 ? hit : `${hit} && !(${except.join(" || ")})`;
  });
  return [
    { id: "e2b-network", action: "block", match: http, reason: "the E2B client denies this address" },
    { id: "e2b-names", action: "block", match: dns, reason: "the E2B client denies this name" },
  ];
}

function matches(field: string, name: string): string {
  const host = name.toLowerCase();
  if (!HOST.test(host)) {
    throw new SbxError("request.unsupported", `sbx has no rule for the network address "${name}"`, {
      hint: `name hosts, *.DOMAIN, or ${ALL} for all; a profile's rules take ranges`,
    });
  }
  return host.startsWith("*.") ? `in_domain(${field}, "${host.slice(2)}")` : `${field} == "${host}"`;
}

/** @throws {SbxError} `request.invalid` */
export function requireFew({ allowOut = [], denyOut = [] }: Network): void {
  if (allowOut.length + denyOut.length <= NAMES_MAX) return;
  throw new SbxError("request.invalid", `a sandbox names at most ${NAMES_MAX} addresses of the network`);
}
