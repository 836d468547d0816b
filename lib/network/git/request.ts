/** Requests of git among HTTP requests: smart HTTP (gitprotocol-http), and writes of refs by other means. */
import { lenientPath } from "../../base/url/mod.ts";
import type { GitUpdate } from "./push.ts";

export type GitService = "git-upload-pack" | "git-receive-pack";

/** A request of git. */
export interface GitRequest {
  service: GitService;
  /** `list`: asks for refs; `call`: its body is of the protocol; `write`: changes a file of a repository (WebDAV), or a ref of an API */
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

/** Any text of a path of git; most paths have none. */
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

/** Recognizes a request of git; `undefined` for others. */
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
