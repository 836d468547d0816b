/** Whom a request names, and whether that is whom it goes to. */
import { parseAddress } from "../../policy/mod.ts";
import { isHostName } from "../guest/hello.ts";
import type { Names } from "../port/names.ts";

/** A host and its port, as `host` and URLs write them. */
export interface Authority {
  /** lower case, without brackets and without the last dot */
  host: string;
  /** absent when it is the scheme's own */
  port?: number;
}

/** Takes an authority apart; `undefined` for what no host can be called. */
export function parseAuthority(text: string): Authority | undefined {
  const [, bracketed, name, port] =
    /^(?:\[([0-9a-fA-F:.]{2,45})\]|([^:@/\[\]]+))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const host = (bracketed ?? name ?? "").toLowerCase().replace(/\.$/, "");
  if (bracketed !== undefined ? !parseAddress(host) : !isHostName(host)) return undefined;
  if (port === undefined) return { host };
  return Number(port) <= 65535 ? { host, port: Number(port) } : undefined;
}

/** An authority as it is written; the scheme's own port is left out. */
export function authorityText(scheme: string, host: string, port: number): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === (scheme === "https" ? 443 : 80) ? name : `${name}:${port}`;
}

/** Where a guest's connection goes, and what it has said of that. */
export interface Channel {
  scheme: "http" | "https";
  /** the address that the guest connects to */
  address: string;
  port: number;
  /** what its ClientHello named */
  name?: string;
}

/**
 * Why a request must not be taken for what it says: its `host`, the name of its TLS and the DNS answers that the guest
 * got have to agree, or rules on hosts would be about names that nobody goes to.
 */
export function disagreement(channel: Channel, { host, port }: Authority, names: Names): string | undefined {
  const { scheme, address, name } = channel;
  const said = port ?? (scheme === "https" ? 443 : 80);
  if (said !== channel.port) return `it names port ${said} and goes to port ${channel.port}`;
  if (name !== undefined && name !== host) return `its TLS names ${name} and its host is ${host}`;
  if (agrees(host, address, names)) return undefined;
  return `it goes to ${address}, and no DNS answer of this VM says that this is ${host}`;
}

/** Whether a host is at an address: a name by the DNS answers of the guest, an address by being it in any spelling. */
export function agrees(host: string, address: string, names: Names): boolean {
  const literal = parseAddress(host);
  if (!literal) return names.agrees(host, address);
  const bytes = parseAddress(address);
  return bytes !== undefined && bytes.length === literal.length &&
    bytes.every((byte, at) => byte === literal[at]);
}
