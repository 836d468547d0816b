/**
 * Token endpoints of clouds on loopback, as the host reaches them through a proxy; jose judges what they get.
 */
import { join } from "node:path";
import { calculateJwkThumbprint, exportPKCS8, generateKeyPair, type JWTPayload, jwtVerify } from "jose";
import { useHostNetwork } from "../../lib/base/proxy/mod.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { HttpProxy } from "./http_proxy.ts";

export const GOOGLE = "oauth2.googleapis.com";
export const AZURE = "login.microsoftonline.com";
export const IAM = "iamcredentials.googleapis.com";
const HOSTS = [GOOGLE, AZURE, IAM];
export const TENANT = "11111111-2222-3333-4444-555555555555";
export const APPLICATION = "99999999-8888-7777-6666-555555555555";
export const EMAIL = "robot@my-project.iam.gserviceaccount.com";

/** A request for a token. */
export interface TokenRequest {
  host: string;
  method: string;
  path: string;
  /** path and query */
  target: string;
  form: URLSearchParams;
  headers: Headers;
  text: string;
}

export type Answer = (request: TokenRequest) => Response | Promise<Response>;

/** A new RSA key: as PEM for files, and for whoever verifies. */
export async function rsaKey(alg: "RS256" | "PS256") {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { publicKey, pem: await exportPKCS8(privateKey), kid: await calculateJwkThumbprint(publicKey) };
}

export type RsaKey = Awaited<ReturnType<typeof rsaKey>>;

/** File of a service account, as Google's console gives it. */
export function accountFile({ pem, kid }: RsaKey, more: Record<string, unknown> = {}): string {
  return JSON.stringify(
    {
      type: "service_account",
      project_id: "my-project",
      private_key_id: kid,
      private_key: pem,
      client_email: EMAIL,
      client_id: "100000000000000000000",
      token_uri: "https://oauth2.googleapis.com/token",
      universe_domain: "googleapis.com",
      ...more,
    },
    null,
    2,
  );
}

/** Claims of a statement, verified. @throws the signature or a claim is wrong */
export async function claimsOf(
  text: string,
  key: RsaKey,
  alg: "RS256" | "PS256",
  audience: string,
): Promise<JWTPayload> {
  const { payload } = await jwtVerify(text, key.publicKey, {
    algorithms: [alg],
    audience,
    requiredClaims: ["exp"],
  });
  return payload;
}

/** The clouds, with the network of this process leading to them; for a test that runs alone. */
export class Clouds implements AsyncDisposable {
  readonly requests: TokenRequest[] = [];
  #answer: Answer = () => new Response(null, { status: 500 });

  private constructor(
    readonly dir: string,
    readonly proxy: HttpProxy,
    readonly servers: Deno.HttpServer[],
  ) {}

  static async open(hosts: readonly string[] = HOSTS): Promise<Clouds> {
    const dir = await Deno.makeTempDir();
    const ca = await openCa({ dir });
    const extra_ca_file = join(dir, "roots.pem");
    await Deno.writeTextFile(extra_ca_file, ca.certificate);
    const ports: Record<string, number> = {};
    const servers: Deno.HttpServer[] = [];
    const proxy = new HttpProxy({ to: (host) => ports[host] });
    const clouds = new Clouds(dir, proxy, servers);
    for (const host of hosts) {
      const options = { hostname: "127.0.0.1", port: 0, onListen: () => {}, ...await ca.leaf(host) };
      const server = Deno.serve(options, (request) => clouds.#handle(host, request));
      servers.push(server);
      ports[host] = server.addr.port;
    }
    useHostNetwork({ proxy: { url: proxy.url, no_proxy: [] }, extra_ca_file });
    return clouds;
  }

  /** Answers of all of them from now on. */
  answer(answer: Answer): void {
    this.#answer = answer;
  }

  async #handle(host: string, request: Request): Promise<Response> {
    const text = await request.text();
    const { pathname, search } = new URL(request.url);
    const seen = {
      host,
      method: request.method,
      path: pathname,
      target: pathname + search,
      form: new URLSearchParams(text),
      headers: new Headers(request.headers),
      text,
    };
    this.requests.push(seen);
    return await this.#answer(seen);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    useHostNetwork({});
    this.proxy[Symbol.dispose]();
    await Promise.all(this.servers.map((server) => server.shutdown()));
    await Deno.remove(this.dir, { recursive: true });
  }
}

export const token = (access_token: string, more: Record<string, unknown> = {}) =>
  Response.json({ access_token, token_type: "Bearer", expires_in: 3599, ...more });
