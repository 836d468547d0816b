/**
 * Sign-in of the desktop page: codes become sessions, and sessions open the API
 * (docs/design/contracts/02-http.md §2, "Desktop").
 */
import { SbxError } from "../../../base/error/mod.ts";
import type { DesktopPage } from "./page.ts";
import type { GatewayRun } from "./run.ts";
import { Codes, type Sessions, type SessionSecrets } from "./sessions.ts";

export const DESKTOP_PATH = "/desktop/";
/** Issues a code, for a client with the token. */
export const DESKTOP_CODES = "/desktop/codes";
/** `POST` exchanges a code, `DELETE` signs out. */
export const DESKTOP_SESSION = "/desktop/session";
/** Proves this run of the gateway to a page. */
export const DESKTOP_PROOF = "/desktop/proof";
/** Header with the key of the page's origin. */
const KEY_HEADER = "x-sbx-desktop";
/** Subprotocol with that key: a page cannot give a WebSocket headers. */
const KEY_PROTOCOL = "sbx.desktop.";
/** `bytes` of the body with a code. */
const BODY_MAX = 1024;

export class DesktopGate {
  readonly #codes = new Codes();
  readonly #run: GatewayRun;
  readonly #sessions: Sessions;
  readonly #page: DesktopPage;

  constructor(run: GatewayRun, sessions: Sessions, page: DesktopPage) {
    this.#run = run;
    this.#sessions = sessions;
    this.#page = page;
  }

  /** True if a `Host` header names this run: the only host whose pages can be signed in. */
  isHost(host: string | null): boolean {
    return this.#run.isHost(host);
  }

  /** True if an `Origin` header is the page's. */
  isOrigin(origin: string | null): boolean {
    return origin !== null && origin.startsWith("http://") && this.isHost(origin.slice("http://".length));
  }

  /** Answers a request to {@linkcode DESKTOP_PATH} that needs no token: the page's files, signing in and out. */
  async answer(request: Request, path: string): Promise<Response> {
    if (path === DESKTOP_SESSION && request.method === "POST") return await this.#signIn(request);
    if (path === DESKTOP_SESSION && request.method === "DELETE") return await this.#signOut(request);
    if (path === DESKTOP_PROOF && request.method === "GET") return await this.#prove(request);
    if (request.method === "GET" || request.method === "HEAD") {
      if (path === "/" || path === "/desktop") {
        return new Response(null, { status: 302, headers: { location: DESKTOP_PATH } });
      }
      return await this.#page.file(path.slice(DESKTOP_PATH.length));
    }
    throw new SbxError("route.method_not_allowed", `${path} has no ${request.method}`, {
      hint: "open the page with sbx desktop",
    });
  }

  /** A new code for the URL's fragment, and the URL's host. */
  issue(): Response {
    return Response.json({ code: this.#codes.issue(), hostname: this.#run.hostname });
  }

  /**
   * Whether a signed-in page sent this request; false for a request without its key.
   *
   * @throws {SbxError} `auth.desktop`: the key belongs to no session of this browser; `auth.bad_origin`
   */
  async admits(request: Request): Promise<boolean> {
    const secrets = secretsOf(request);
    if (secrets === undefined) return false;
    this.#requireOwnOrigin(request);
    if (await this.#sessions.has(secrets, agentOf(request))) return true;
    throw new SbxError("auth.desktop", "this browser is not signed in", {
      hint: "run sbx desktop",
    });
  }

  /** The subprotocol that a page's WebSocket requested, which the answer has to name. */
  protocolOf(request: Request): string | undefined {
    return request.headers.get("sec-websocket-protocol")?.startsWith(KEY_PROTOCOL)
      ? request.headers.get("sec-websocket-protocol")!
      : undefined;
  }

  async #signIn(request: Request): Promise<Response> {
    if (!this.#isOwnOrigin(request)) throw badOrigin();
    const code = await readCode(request);
    if (code === undefined || !this.#codes.take(code)) {
      throw new SbxError("auth.desktop", "this link was used before, or is older than a minute", {
        hint: "run sbx desktop for a new one",
      });
    }
    const { cookie, key } = await this.#sessions.add(agentOf(request));
    return Response.json({ key, gateway_key: this.#run.publicKey }, {
      headers: { "set-cookie": setCookie(request, cookie), "cache-control": "no-store" },
    });
  }

  async #prove(request: Request): Promise<Response> {
    const challenge = new URL(request.url).searchParams.get("challenge") ?? "";
    const signature = await this.#run.prove(challenge, request.headers.get("host") ?? "");
    return Response.json({ signature }, { headers: { "cache-control": "no-store" } });
  }

  async #signOut(request: Request): Promise<Response> {
    const secrets = secretsOf(request);
    if (secrets === undefined || !this.#isOwnOrigin(request)) throw badOrigin();
    await this.#sessions.remove(secrets, agentOf(request));
    return Response.json({ ok: true }, { headers: { "set-cookie": setCookie(request, "", "; Max-Age=0") } });
  }

  /** Browsers send `Origin` with everything but plain reads, and `Sec-Fetch-Site` with those. */
  #requireOwnOrigin(request: Request): void {
    const isOwn = request.headers.has("origin")
      ? this.#isOwnOrigin(request)
      : this.isHost(request.headers.get("host")) && request.headers.get("sec-fetch-site") === "same-origin";
    if (!isOwn) throw badOrigin();
  }

  #isOwnOrigin({ headers }: Request): boolean {
    const host = headers.get("host");
    return this.isHost(host) && headers.get("origin") === `http://${host}`;
  }
}

/** True if the gateway itself answers this path, without a token. */
export function isDesktopPath(path: string): boolean {
  return path === "/" || path === "/desktop" || (path.startsWith(DESKTOP_PATH) && path !== DESKTOP_CODES);
}

function secretsOf(request: Request): SessionSecrets | undefined {
  const key = request.headers.get(KEY_HEADER) ??
    request.headers.get("sec-websocket-protocol")?.match(/^sbx\.desktop\.(\w+)$/)?.[1];
  if (key === undefined) return undefined;
  const name = cookieName(request);
  const pairs = (request.headers.get("cookie") ?? "").split(";").map((pair) => pair.trim().split("="));
  return { key, cookie: pairs.find(([each]) => each === name)?.[1] ?? "" };
}

/** Cookies ignore ports, so each gateway has a name of its own. */
function cookieName(request: Request): string {
  return `sbx-desktop-${/:(\d+)$/.exec(request.headers.get("host") ?? "")?.[1] ?? "80"}`;
}

/** A cookie of the browser's session, for the run's host alone. */
function setCookie(request: Request, value: string, age = ""): string {
  return `${cookieName(request)}=${value}; Path=/; HttpOnly; SameSite=Strict${age}`;
}

function badOrigin(): SbxError {
  return new SbxError("auth.bad_origin", "only the desktop page itself may use its session", {
    hint: "run sbx desktop",
  });
}

function agentOf(request: Request): string {
  return request.headers.get("user-agent") ?? "";
}

async function readCode(request: Request): Promise<string | undefined> {
  const length = Number(request.headers.get("content-length") ?? BODY_MAX + 1);
  if (length > BODY_MAX) return undefined;
  const body: unknown = await request.json().catch(() => undefined);
  const code = (body as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}
