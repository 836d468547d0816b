/** Requests of git among HTTP requests: smart HTTP (gitprotocol-http), and writes of refs by other means. */
import { lenientPath } from "../../base/url/mod.ts";
import { FLUSH, formatPacket, type GitUpdate, PACKET_MAX, type PushReading, SMALL_BAND_MAX } from "./push.ts";
import { joinBytes } from "../../base/bytes/mod.ts";

export type GitService = "git-upload-pack" | "git-receive-pack";

/** A git request. */
export interface GitRequest {
  service: GitService;
  /**
   * `list`: asks for refs; `call`: its body is of the protocol; `write`: changes a file of a
   * repository (WebDAV), or a ref of an API
   */
  step: "list" | "call" | "write";
  /** the client reads packets, so that a refusal can be one */
  isClient: boolean;
  /** the ref that a `write` names, if it names one */
  update?: GitUpdate;
  /** why the refs that a `write` changes are unknown */
  fault?: string;
}

/** The part of a request's head that concerns git. */
export interface GitHead {
  method: string;
  /** canonical */
  path: string;
  query: string;
  /** first value of a header */
  header(name: string): string | undefined;
}

/** Any text of a git path; most paths have none. */
const HINT = /git-|\/refs|\/head|packed-refs|%/i;
const SERVICE = /\/git-(upload|receive)-pack(?:[?#].*)?$/i;
const LIST = /\/info\/refs$/i;
const TYPE = /^\s*application\/x-git-(upload|receive)-pack-request\b/i;
/** Methods that write a file of a repository, or a ref of an API (GitHub's has PATCH and DELETE). */
const WRITES = new Set(["PUT", "DELETE", "PATCH", "MOVE", "COPY", "LOCK"]);
const REF = /\/(refs\/.+)$/;
/** Files that hold refs, and name none in their path. */
const REF_FILES = /\/(?:packed-refs|HEAD|info\/refs)$/i;

/** False for most targets, and then a request without a body is not of git. */
export function mayBeGit(target: string): boolean {
  return HINT.test(target);
}

/** Recognizes a git request; `undefined` for others. */
export function gitRequestOf(head: GitHead): GitRequest | undefined {
  const { method, path } = head;
  const isRead = method === "GET" || method === "HEAD" || method === "OPTIONS";
  if (!HINT.test(path)) return isRead ? undefined : requestOfType(head);
  const plain = lenientPath(path);
  if (!isRead) {
    const [, word] = SERVICE.exec(plain) ?? [];
    if (word) return { service: serviceOf(word), step: "call", isClient: TYPE.test(typeOf(head)) };
    return writeOf(head, plain) ?? requestOfType(head);
  }
  if (!LIST.test(plain)) return undefined;
  const services = new URLSearchParams(head.query).getAll("service");
  const service = services.find((name) => /receive/i.test(name)) ?? services[0];
  if (service === undefined || !/^git-(?:upload|receive)-pack$/i.test(service)) return undefined;
  return { service: serviceOf(service), step: "list", isClient: method === "GET" };
}

/** A request by its content type alone, at any path. */
function requestOfType(head: GitHead): GitRequest | undefined {
  const [, word] = TYPE.exec(typeOf(head)) ?? [];
  return word ? { service: serviceOf(word), step: "call", isClient: true } : undefined;
}

function writeOf({ method, header }: GitHead, path: string): GitRequest | undefined {
  if (!WRITES.has(method.toUpperCase())) return undefined;
  const destination = URL.parse(header("destination") ?? "", "http://host")?.pathname ?? "";
  const paths = [path, lenientPath(destination)];
  const ref = paths.map((path) => REF.exec(path)?.[1]).findLast((ref) => ref !== undefined);
  const push = { service: "git-receive-pack", step: "write", isClient: false } as const;
  if (paths.some((path) => REF_FILES.test(path))) {
    return { ...push, fault: "a write of a file that holds refs" };
  }
  if (ref === undefined) return undefined;
  return { ...push, update: { kind: method === "DELETE" ? "delete" : "update", new: "", old: "", ref } };
}

function typeOf({ header }: GitHead): string {
  return header("content-type") ?? "";
}

function serviceOf(name: string): GitService {
  return /receive/i.test(name) ? "git-receive-pack" : "git-upload-pack";
}

// Refusals that git's client shows to its user.

/** A response with status 200: git's client reads packets of no other. */
export interface GitReply {
  type: string;
  body: Uint8Array;
}

/** Bands of a multiplexed answer (gitprotocol-pack, "Packfile Data"). */
const BAND = { data: 1, message: 2, error: 3 };

/**
 * Formats a refusal.
 *
 * @param line reason, without control characters
 * @param push its updates are refused one by one
 */
export function formatRefusal({ service, step }: GitRequest, line: string, push?: PushReading): GitReply {
  if (step === "list") {
    const body = joinBytes([formatPacket(`# service=${service}\n`), FLUSH, formatError(line), FLUSH]);
    return { type: `application/x-${service}-advertisement`, body };
  }
  return {
    type: `application/x-${service}-result`,
    body: push ? formatPushRefusal(push, line) : formatError(line),
  };
}

/**
 * Formats the answer to a refused push, as the server's would be.
 * @param line reason, without control characters
 */
export function formatPushRefusal({ updates, features, fault }: PushReading, line: string): Uint8Array {
  const bandMax = features.has("side-band-64k") ? PACKET_MAX : features.has("side-band") ? SMALL_BAND_MAX : 0;
  const isReported = features.has("report-status") || features.has("report-status-v2");
  if (fault !== undefined || !isReported) {
    return bandMax ? joinBytes([...bands(BAND.error, encode(line), bandMax), FLUSH]) : formatError(line);
  }
  const report = joinBytes([
    formatPacket("unpack ok\n"),
    ...updates.map(({ ref }) => formatPacket(`ng ${ref} blocked by policy\n`)),
    FLUSH,
  ]);
  if (!bandMax) return report;
  return joinBytes([
    ...bands(BAND.message, encode(`${line}\n`), bandMax),
    ...bands(BAND.data, report, bandMax),
    FLUSH,
  ]);
}

function bands(band: number, bytes: Uint8Array, max: number): Uint8Array[] {
  const packets: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += max - 5) {
    packets.push(formatPacket(joinBytes([Uint8Array.of(band), bytes.subarray(at, at + max - 5)])));
  }
  return packets;
}

/**
 * Formats the packet by which a server ends a conversation.
 * @param line reason, without control characters
 */
export function formatError(line: string): Uint8Array {
  return formatPacket(`ERR ${line}`);
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
