/**
 * Git in HTTP requests: the changes of a push are known before its first byte is sent
 * (docs/design/contracts/05-policy.md §5, "Git").
 */
import { plain } from "../../base/print/mod.ts";
import type { HttpGit } from "../../event/mod.ts";
import {
  COMMANDS_MAX,
  formatRefusal,
  type GitRequest,
  gitRequestOf,
  mayBeGit,
  type PushReading,
  readPush,
} from "../git/mod.ts";
import { type Decision, guestAnswer } from "../../policy/mod.ts";
import { decodeBody, encodingOf } from "../message/encoding.ts";
import { headerValue } from "../message/header.ts";
import { splitTarget } from "../message/head.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { BlockReply, Outlet } from "./context.ts";
import type { CapturedHead } from "./request.ts";

/** Part of events that holds a request's git operation, as `Gate.reads` takes it. */
export const REQUEST_GIT = "http.request.git";

/** Encodings of bodies that git's servers decode; they read a body in any other one undecoded. */
const GZIP = new Set(["gzip", "x-gzip"]);

/** A request of git, and what could be read of it. */
export class GitExchange {
  readonly #request: GitRequest;
  #push?: PushReading;

  private constructor(request: GitRequest) {
    this.#request = request;
  }

  /** @returns `undefined` for a request that is not of git */
  static match({ method, target, headers }: CapturedHead): GitExchange | undefined {
    if (method === "GET" && !mayBeGit(target)) return undefined;
    const header = (name: string) => headerValue(headers, name);
    const request = gitRequestOf({ method, ...splitTarget(target), header });
    return request && new GitExchange(request);
  }

  /** `bytes` of the body that are read before the decision */
  get bodyMax(): number {
    return this.#isPush ? COMMANDS_MAX : 0;
  }

  /**
   * Reads the changes of a push; call before `fault` and `field`.
   *
   * @param outlet then refuses in git's protocol
   */
  async read({ headers }: CapturedHead, { first }: BufferedBody, outlet: Outlet): Promise<void> {
    outlet.blockReply = (decision) => this.#blockReply(decision);
    if (!this.#isPush) return;
    const encoding = encodingOf(headers);
    const isGzip = encoding !== undefined && GZIP.has(encoding);
    const plain = isGzip ? (await decodeBody(first, encoding, COMMANDS_MAX))?.bytes : first;
    const push = readPush((plain ?? first).subarray(0, COMMANDS_MAX));
    this.#push = encoding === undefined || isGzip
      ? push
      : { ...push, fault: `the content encoding ${encoding}` };
  }

  /** Why the refs that the request changes are unknown; absent where they are known. */
  get fault(): string | undefined {
    return this.#request.fault ?? this.#push?.fault;
  }

  /** The event's git field; `undefined` where it is unknown. */
  get field(): HttpGit | undefined {
    if (this.fault !== undefined) return undefined;
    const { service, update } = this.#request;
    return { service, updates: this.#push?.updates ?? (update ? [update] : []) };
  }

  /** A refusal as git's client shows it; `undefined` for clients that get status 403. */
  #blockReply(decision: Decision): BlockReply | undefined {
    if (!this.#request.isClient) return undefined;
    const { type, body } = formatRefusal(this.#request, plain(guestAnswer(decision)), this.#push);
    return { status: 200, headers: [["content-type", type], ["cache-control", "no-cache"]], body };
  }

  get #isPush(): boolean {
    return this.#request.step === "call" && this.#request.service === "git-receive-pack";
  }
}

/** Reads and drops the rest of a refused body: git reads no response before it has sent its pack. */
export async function drainBody({ rest }: BufferedBody): Promise<void> {
  while (!rest.done && await rest.read() !== null);
}
