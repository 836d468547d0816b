/**
 * The end of a login on this machine: the browser brings the code to a port of 127.0.0.1 (RFC 8252).
 * Answers show nothing of what came.
 */
import { timingSafeEqual } from "@std/crypto";
import { ignore, type SbxError } from "../error/mod.ts";

const HEADERS = {
  "content-type": "text/plain; charset=utf-8",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** Values that the redirect must repeat. */
export interface ExpectedRedirect {
  state: string;
  /** absent: whatever it names, it is the only one that the login may come from */
  issuer?: string;
  /** the authorization server always names itself (RFC 9207) */
  namesIssuer: boolean;
}

export interface RedirectOptions {
  /** 0: any that is free */
  port: number;
  /** hint for a port that is taken */
  portHint: string;
  /** time in `ms` for the person */
  ms: number;
  /** name of this machine in the redirect's URL; default `127.0.0.1` */
  host?: "localhost" | "127.0.0.1";
  /** default `/callback` */
  path?: string;
  /** makes the error of a login that failed */
  fail(problem: string, cause?: unknown, hint?: string): SbxError;
  /** makes the error of a login that was not finished in time */
  timedOut(problem: string): SbxError;
  /** the code of a refusal, if it may be shown */
  codeOf(error: string | undefined): string | undefined;
}

/** Listens for one redirect. */
export class RedirectListener {
  /** `redirect_uri` of the login */
  readonly url: string;
  /** the code; rejects when the login was refused, closed or not finished in time */
  readonly code: Promise<string>;
  /** set once the authorization server is known; before, no redirect counts */
  expected?: ExpectedRedirect;
  readonly #host: string;
  readonly #path: string;
  readonly #options: RedirectOptions;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #result = Promise.withResolvers<string>();
  readonly #timer: ReturnType<typeof setTimeout>;

  /** @throws {SbxError} made by `fail`: the port is taken */
  constructor(options: RedirectOptions) {
    const { port, ms, host = "127.0.0.1", path = "/callback" } = this.#options = options;
    this.#path = path;
    try {
      this.#server = Deno.serve(
        { hostname: "127.0.0.1", port, onListen() {} },
        (request) => this.#answer(request),
      );
    } catch (cause) {
      throw options.fail(`port ${port} of 127.0.0.1 cannot be used`, cause, options.portHint);
    }
    this.#host = `${host}:${this.#server.addr.port}`;
    this.url = `http://${this.#host}${path}`;
    this.code = this.#result.promise.finally(() => this.#stop());
    this.code.catch(ignore("awaited once the browser is open"));
    this.#timer = setTimeout(
      () =>
        this.#result.reject(
          options.timedOut(`the login was not finished within ${Math.round(ms / 1000)} s`),
        ),
      ms,
    );
  }

  /** Ends the wait. */
  close(): void {
    this.#result.reject(this.#options.fail("the login was cancelled"));
  }

  #answer(request: Request): Response {
    const url = new URL(request.url);
    const { expected } = this;
    const { fail, codeOf } = this.#options;
    // A page of the web could reach this port under a name of its own.
    if (request.headers.get("host") !== this.#host) return text(400, "This address is for sbx only.");
    if (url.pathname !== this.#path || request.method !== "GET") return text(404, "Not found.");
    const single = (name: string) => {
      const values = url.searchParams.getAll(name);
      return values.length === 1 ? values[0] : undefined;
    };
    // A redirect that does not belong to this login changes nothing: any page can send one.
    if (!expected || !isSame(single("state") ?? "", expected.state)) {
      return text(400, "sbx is not waiting for this login.");
    }
    // From here the authorization server speaks, or one that was taken for it (mix-up).
    const issuer = single("iss");
    const isOther = expected.issuer !== undefined && issuer !== expected.issuer;
    if (url.searchParams.has("iss") ? isOther : expected.namesIssuer) {
      this.#result.reject(fail("the redirect came from another authorization server"));
      return text(400, "This redirect came from another authorization server.");
    }
    const code = single("code");
    if (url.searchParams.has("error") || !code) {
      const known = codeOf(single("error"));
      this.#result.reject(fail(`the login was refused${known ? `: ${known}` : ""}`));
      return text(400, "The login was refused. You can close this page.");
    }
    this.#result.resolve(code);
    return text(
      200,
      "The code has reached sbx; the terminal shows how the login ended. You can close this page.",
    );
  }

  #stop(): void {
    clearTimeout(this.#timer);
    // Lets the answer go out first.
    this.#server.shutdown().catch(ignore("the listener has ended"));
  }
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [a, b].map((part) => new TextEncoder().encode(part));
  return left.length === right.length && timingSafeEqual(left, right);
}

function text(status: number, body: string): Response {
  return new Response(`${body}\n`, { status, headers: { ...HEADERS, connection: "close" } });
}
