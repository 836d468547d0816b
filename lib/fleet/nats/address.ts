import { SbxError } from "../../base/error/mod.ts";
import { isLoopbackHost, shownAddress } from "../../base/url/mod.ts";

const PORT = 4222;
/** Prefix of subjects, where the address names none. */
const PREFIX = "sbx.fleet";

/** A subject of a NATS server, below which segments and reports are. */
export interface NatsAddress {
  hostname: string;
  port: number;
  isTls: boolean;
  prefix: string;
  /** stream that has the subjects */
  stream: string;
  /** the address, for messages */
  name: string;
}

/** Parses `nats://HOST[:PORT][/PREFIX]`, or `tls:` instead of `nats:`. @throws {SbxError} `fleet.url.invalid` */
export function parseNats(text: string): NatsAddress {
  const [, scheme, rest] = /^(nats|tls):\/\/(.+)$/.exec(text) ?? [];
  // Hosts of unknown schemes are not parsed by URL.
  const url = rest === undefined ? null : URL.parse(`http://${rest}`);
  const prefix = url?.pathname.slice(1) || PREFIX;
  if (
    !url || url.username || url.password || url.search || url.hash ||
    !/^[a-zA-Z0-9_-]{1,64}(\.[a-zA-Z0-9_-]{1,64}){0,7}$/.test(prefix)
  ) {
    throw new SbxError("fleet.url.invalid", `"${shownAddress(text)}" is not the address of a NATS server`, {
      hint:
        "use tls://HOST or nats://127.0.0.1:4222, with a prefix of subjects such as /sbx.fleet if you like",
    });
  }
  // The library compares certificates with names only, and with that of this machine for an address.
  if (scheme === "tls" && /^(\[|[0-9.]+$)/.test(url.hostname) && !url.hostname.startsWith("127.")) {
    throw new SbxError("fleet.url.invalid", `"${shownAddress(text)}" has an address where TLS needs a name`, {
      hint: "use the name that the server's certificate has",
    });
  }
  const port = Number(url.port || PORT);
  return {
    hostname: url.hostname,
    port,
    isTls: scheme === "tls",
    prefix,
    stream: prefix.toUpperCase().replaceAll(".", "_"),
    name: `${scheme}://${url.hostname}:${port}/${prefix}`,
  };
}

/** Refuses to send a credential without TLS, but to this machine. @throws {SbxError} `fleet.url.invalid` */
export function refuseClear({ hostname, isTls, name }: NatsAddress): void {
  if (isTls || isLoopbackHost(hostname)) return;
  throw new SbxError("fleet.url.invalid", `${name} would get its credential without TLS`, {
    hint: `use tls://${hostname}`,
  });
}

/** Subjects: receivers read `in`; `part` carries pieces of segments larger than a message. */
export const subjects = {
  all: ({ prefix }: NatsAddress) => `${prefix}.>`,
  received: ({ prefix }: NatsAddress) => `${prefix}.in.>`,
  segment: ({ prefix }: NatsAddress, machineId: string, sessionId: string) =>
    `${prefix}.in.segment.${machineId}.${sessionId}`,
  report: ({ prefix }: NatsAddress, machineId: string, body: { kind: string; session_id?: string }) =>
    `${prefix}.in.report.${machineId}.${body.kind}${body.session_id ? `.${body.session_id}` : ""}`,
  part: ({ prefix }: NatsAddress, machineId: string) => `${prefix}.part.${machineId}`,
};

/** Header of a message without data: sequences of the parts of its segment, in order. */
export const PARTS_HEADER = "Sbx-Parts";
/** Header with the heads that a segment ends with, as JSON. */
export const TO_HEADER = "Sbx-To";
