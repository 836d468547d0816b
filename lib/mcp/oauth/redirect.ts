/** The end of a login on this machine: the browser brings the code to a port of 127.0.0.1. */
import { timingSafeEqual } from "@std/crypto";
import { SbxError } from "../../base/error/mod.ts";
import { knownCode, loginFailed } from "./problem.ts";

const PATH = "/callback";
const HEADERS = {
  "content-type": "text/plain; charset=utf-8",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** Values that the redirect must repeat. */
export interface Expected {
  state: string;
  issuer: string;
  /** whether the authorization server always names itself (RFC 9207) */
  namesIssuer: boolean;
}

/** Listens for one redirect. Answers show nothing of what came. */
export class RedirectListener {
  /** `redirect_uri` of the login */
  readonly url: string;
  /** the code; rejects when the login was refused, closed or not finished in time */
  readonly code: Promise<string>;
  /** set once the authorization server is known; before, no redirect counts */
  expected?: Expected;
  readonly #host: string;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #result = Promise.withResolvers<string>();
  readonly #timer: ReturnType<typeof setTimeout>;

  /**
   * @param port 0: any that is free
   * @param ms time for the person
   * @throws {SbxError} `mcp.login.failed`: the port is taken
   */
  constructor(port: number, ms: number) {
    try {
      this.#server = Deno.serve(
        { hostname: "127.0.0.1", port, onListen() {} },
        (request) => this.#answer(request),
      );
    } catch (cause) {
      throw loginFailed(`port ${port} of 127.0.0.1 cannot be used`, cause, "give another one with --port");
    }
    this.#host = `127.0.0.1:${this.#server.addr.port}`;
    this.url = `http://${this.#host}${PATH}`;
    this.code = this.#result.promise.finally(() => this.#stop());
    this.code.catch(() => {});
    this.#timer = setTimeout(() =>
      this.#result.reject(
        new SbxError("mcp.login.timeout", `nobody logged in within ${Math.round(ms / 1000)} s`, {
          hint: "run the command again, and open its URL",
        }),
      ), ms);
  }

  /** Ends the wait. */
  close(): void {
    this.#result.reject(loginFailed("the login was given up"));
  }

  #answer(request: Request): Response {
    const url = new URL(request.url);
    const { expected } = this;
    // A page of the web could reach this port under a name of its own.
    if (request.headers.get("host") !== this.#host) return text(400, "This address is for sbx only.");
    if (url.pathname !== PATH || request.method !== "GET") return text(404, "There is nothing here.");
    const single = (name: string) => {
      const values = url.searchParams.getAll(name);
      return values.length === 1 ? values[0] : undefined;
    };
    // A redirect that does not belong to this login changes nothing: any page can send one.
    if (!expected || !isSame(single("state") ?? "", expected.state)) {
      return text(400, "This is not the login that sbx waits for.");
    }
    // From here the authorization server speaks, or one that was taken for it (mix-up).
    const issuer = single("iss");
    if (url.searchParams.has("iss") ? issuer !== expected.issuer : expected.namesIssuer) {
      this.#result.reject(loginFailed("the redirect came from another authorization server"));
      return text(400, "This redirect came from another authorization server.");
    }
    const code = single("code");
    if (url.searchParams.has("error") || !code) {
      const known = knownCode(single("error"));
      this.#result.reject(loginFailed(`the login was refused${known ? `: ${known}` : ""}`));
      return text(400, "The login was refused. You can close this page.");
    }
    this.#result.resolve(code);
    return text(200, "You are back at sbx; the terminal says how the login ended. You can close this page.");
  }

  #stop(): void {
    clearTimeout(this.#timer);
    // Lets the answer go out first.
    this.#server.shutdown().catch(() => {});
  }
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [a, b].map((part) => new TextEncoder().encode(part));
  return left.length === right.length && timingSafeEqual(left, right);
}

function text(status: number, body: string): Response {
  return new Response(`${body}\n`, { status, headers: { ...HEADERS, connection: "close" } });
}
