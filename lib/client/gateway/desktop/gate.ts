/**
 * Sign-in of the desktop page: codes become sessions, and sessions open the API
 * (docs/design/contracts/02-http.md §2, "Desktop").
 */
import { SbxError } from "../../../base/error/mod.ts";
import type { DesktopPage, GatewayRun } from "./page.ts";
import { newToken } from "../token.ts";

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

  /**
   * Answers a request to {@linkcode DESKTOP_PATH} that needs no token: the page's files, signing in and out.
   */
  async answer(request: Request, path: string): Promise<Response> {
    if (path === DESKTOP_SESSION && request.method === "POST") return await this.#signIn(request);
    if (path === DESKTOP_SESSION && request.method === "DELETE") return await this.#signOut(request);
    if (path === DESKTOP_PROOF && request.method === "GET") return await this.#prove(request);
    if (request.method === "GET" || request.method === "HEAD") {
      if (path === "/" || path === "/desktop") {
        return new Response(null, { status: 302, headers: { location: DESKTOP_PATH } });
      }
      return await this.#page.file(
        path.slice(DESKTOP_PATH.length),
        request.headers.get("accept-encoding"),
      );
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

// Browsers that are signed in to the desktop page, and the codes that sign them in
// (docs/design/contracts/02-http.md §2, "Desktop").

/** Browsers that may be signed in at once; one more replaces the oldest. */
export const SESSIONS_MAX = 16;
/** `ms` for which a browser stays signed in, at most. */
export const SESSION_TTL_MS = 30 * 24 * 3600 * 1000;

/** One signed-in browser, by the hashes of its secrets. */
interface Session {
  cookie: string;
  key: string;
  agent: string;
  expires_at: number;
}

/** Secrets of a new session: one for the cookie, one for the storage of the page's origin. */
interface SessionSecrets {
  cookie: string;
  key: string;
}

/**
 * Sessions end with the gateway: a program that gets its port afterwards also gets what browsers send there,
 * and none of that may open the next gateway. A session has two secrets: browsers send a cookie to every port
 * of a host, also to one that leads into a VM. The key stays with the page's origin, which includes the port.
 */
export class Sessions {
  readonly #now: () => number;
  #sessions: Session[] = [];

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Signs a browser in. */
  async add(agent: string): Promise<SessionSecrets> {
    const secrets = { cookie: newToken(), key: newToken() };
    const session = {
      cookie: await digest(secrets.cookie),
      key: await digest(secrets.key),
      agent: await digest(agent),
      expires_at: this.#now() + SESSION_TTL_MS,
    };
    this.#sessions = [...this.#live(), session].slice(-SESSIONS_MAX);
    return secrets;
  }

  /** True if both secrets belong to one session of this browser. */
  async has(secrets: SessionSecrets, agent: string): Promise<boolean> {
    return await this.#find(secrets, agent) !== undefined;
  }

  /** Signs a browser out. */
  async remove(secrets: SessionSecrets, agent: string): Promise<void> {
    const found = await this.#find(secrets, agent);
    this.#sessions = this.#live().filter((session) => session !== found);
  }

  async #find(secrets: SessionSecrets, agent: string): Promise<Session | undefined> {
    const [cookie, key, browser] = await Promise.all([secrets.cookie, secrets.key, agent].map(digest));
    // Hashes of random secrets: the time of a comparison says nothing about them.
    return this.#live().find((each) => each.cookie === cookie && each.key === key && each.agent === browser);
  }

  #live(): Session[] {
    return this.#sessions.filter(({ expires_at }) => expires_at > this.#now());
  }
}

/** `ms` for which a code can be exchanged. */
export const CODE_TTL_MS = 60_000;
/** Codes that wait at once; one more replaces the oldest. */
const CODES_MAX = 16;

/** One-time codes by which `sbx desktop` signs a browser in. */
export class Codes {
  readonly #now: () => number;
  #codes = new Map<string, number>();

  /** @param now monotonic clock in `ms` */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  issue(): string {
    const code = newToken();
    const live = [...this.#codes].filter(([, expires]) => expires > this.#now());
    this.#codes = new Map([...live, [code, this.#now() + CODE_TTL_MS] as const].slice(-CODES_MAX));
    return code;
  }

  /** Takes a code, which is valid once. @returns whether it was valid */
  take(code: string): boolean {
    const expires = this.#codes.get(code);
    this.#codes.delete(code);
    return expires !== undefined && expires > this.#now();
  }
}

/** SHA-256 of a secret in hex, stored and compared in place of the secret. */
async function digest(secret: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return new Uint8Array(hash).toHex();
}
