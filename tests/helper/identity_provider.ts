/**
 * Authorization servers of providers on loopback: `oidc-provider`, over TLS and under the published names,
 * paths and shapes of a provider's own client. Requests of the host reach them through a proxy.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Provider } from "oidc-provider";
import { useHostNetwork } from "../../lib/base/proxy/mod.ts";
import { type Definition, DEFINITIONS } from "../../lib/credential/mod.ts";
import type { OauthFacts } from "../../lib/credential/provider.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { HttpProxy } from "./http_proxy.ts";
import type { Parsed } from "./json.ts";

/** What a person does, and what the server does unlike a good one. */
export interface ProviderState {
  /** account that logs in */
  account: string;
  denies: boolean;
  /** replaces an answer of the token endpoint */
  token?(answer: Parsed, form: URLSearchParams): Response | Parsed | Promise<Response | Parsed>;
  /** holds a request to the token endpoint, or answers it, before the server has it */
  before?(form: URLSearchParams): Promise<Response> | undefined;
  /** answers in place of the server, at the token and device endpoints */
  answer?(): Response;
  device?(): Response;
  /** grants asked for at the token endpoint, in order */
  grants: string[];
  /** bodies at the token endpoint, as they came */
  bodies: string[];
  /** `s` until a token ends */
  lifetime: number;
}

export interface TestProvider extends AsyncDisposable {
  state: ProviderState;
  facts: OauthFacts;
  /** the catalogue, with a free port for the redirect */
  definitions: Definition[];
  folder: string;
  proxy: HttpProxy;
  caFile: string;
  /** `network.upstream_overrides` for guests */
  overrides: string;
  /** fetch on the way of the host */
  fetch(url: string, init?: RequestInit): Promise<Response>;
  /**
   * follows the URL of a login as a browser does, to the page that it ends at.
   * @returns status and URL of that page
   */
  browse(url: string): Promise<{ status: number; url: string }>;
}

/** @param login word of `sbx login`. @param answer answers other requests to names of the provider */
export async function testProvider(
  login: string,
  answer: (request: Request) => Response | Promise<Response> = () => new Response(null, { status: 404 }),
): Promise<TestProvider> {
  const definitions = DEFINITIONS.map((each) =>
    each.oauth?.redirect?.port === undefined
      ? each
      : { ...each, oauth: { ...each.oauth, redirect: { ...each.oauth.redirect, port: undefined } } }
  );
  const definition = definitions.find(({ oauth }) => oauth?.login === login)!;
  const facts = definition.oauth!;
  const state: ProviderState = { account: "alice", denies: false, grants: [], bodies: [], lifetime: 3600 };
  const paths = {
    authorization: new URL(facts.authorize ?? "https://x/authorize").pathname,
    token: new URL(facts.token).pathname,
    device_authorization: new URL(facts.device ?? "https://x/device").pathname,
  };
  const names = [facts.authorize, facts.token, facts.device, facts.exchange, facts.account_url]
    .flatMap((url) => url === undefined ? [] : [new URL(url).hostname]);
  const scopes = facts.scopes.filter((scope) => !["openid", "offline_access"].includes(scope));
  const oidc = new Provider(facts.issuer ?? new URL(facts.token).origin, {
    clients: [{
      client_id: facts.client_id,
      application_type: "native",
      token_endpoint_auth_method: facts.published_secret === undefined ? "none" : "client_secret_post",
      ...(facts.published_secret !== undefined && { client_secret: facts.published_secret }),
      grant_types: [
        ...facts.authorize ? ["authorization_code"] : [],
        "refresh_token",
        "urn:ietf:params:oauth:grant-type:device_code",
      ],
      redirect_uris: facts.authorize
        ? [`http://${facts.redirect!.host}${facts.redirect!.path}`, ...facts.paste ? [facts.paste] : []]
        : [],
      response_types: facts.authorize ? ["code"] : [],
    }],
    scopes: ["openid", "offline_access", ...scopes],
    claims: { openid: ["sub", "https://api.openai.com/auth"], email: ["email"], profile: ["name"] },
    conformIdTokenClaims: false,
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: false } },
    routes: paths,
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: () => Promise.resolve(true),
    expiresWithSession: () => Promise.resolve(false),
    ttl: {
      AccessToken: () => state.lifetime,
      RefreshToken: 86_400,
      Grant: 86_400,
      Session: 86_400,
      Interaction: 3600,
      IdToken: 3600,
    },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_ctx: unknown, id: string) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id}@example.com`,
        "https://api.openai.com/auth": { chatgpt_account_id: `account-of-${id}`, chatgpt_plan_type: "plus" },
      }),
    }),
    cookies: { keys: ["test"] },
    // deno-lint-ignore no-explicit-any
  } as any);
  oidc.proxy = true;
  const handle = oidc.callback();
  const inner = createServer(async (request, response) => {
    if (!request.url?.startsWith("/interaction/")) return handle(request, response);
    const { params } = await oidc.interactionDetails(request, response);
    const grant = new oidc.Grant({ accountId: state.account, clientId: String(params.client_id) });
    grant.addOIDCScope(String(params.scope));
    const result = state.denies
      ? { error: "access_denied" }
      : { login: { accountId: state.account }, consent: { grantId: await grant.save() } };
    await oidc.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  });
  await new Promise<void>((resolve) => inner.listen(0, "127.0.0.1", resolve));
  const innerPort = (inner.address() as AddressInfo).port;

  const forward = (request: Request, host: string, body?: BodyInit) => {
    const { pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    headers.set("x-forwarded-proto", "https");
    headers.set("x-forwarded-host", host);
    headers.delete("content-length");
    if (body instanceof URLSearchParams) headers.set("content-type", "application/x-www-form-urlencoded");
    return fetch(`http://127.0.0.1:${innerPort}${pathname}${search}`, {
      method: request.method,
      headers,
      redirect: "manual",
      ...(body !== undefined && { body }),
    });
  };
  const token = async (request: Request, host: string) => {
    const text = await request.text();
    state.bodies.push(text);
    const form = facts.body === "json"
      ? new URLSearchParams(JSON.parse(text) as Record<string, string>)
      : new URLSearchParams(text);
    state.grants.push(form.get("grant_type") ?? "");
    form.delete("state");
    const held = state.before?.(form);
    if (held) return await held;
    if (state.answer) return state.answer();
    const answered = await forward(request, host, form);
    if (!answered.ok) return answered;
    const fields = await answered.json();
    // Anthropic names the account beside the tokens.
    if (facts.account[0] === "account") fields.account = { uuid: `uuid-of-${state.account}` };
    const changed = await state.token?.(fields, form) ?? fields;
    return changed instanceof Response ? changed : Response.json(changed);
  };

  const folder = await Deno.makeTempDir();
  const ca = await openCa({ dir: folder });
  const servers = new Map<string, Deno.HttpServer<Deno.NetAddr>>();
  for (const name of new Set([...names, ...definition.hosts.filter((host) => !host.includes("*"))])) {
    const { cert, key } = await ca.leaf(name);
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, cert, key, onListen() {} },
      async (request) => {
        const { pathname } = new URL(request.url);
        const isHere = name === new URL(facts.token).hostname;
        if (isHere && request.method === "POST" && pathname === paths.token) {
          return await token(request, name);
        }
        if (state.device && facts.device?.endsWith(pathname)) {
          await request.body?.cancel();
          return state.device();
        }
        const isOidc = [facts.authorize, facts.device].some((url) =>
          url !== undefined && new URL(url).hostname === name && pathname.startsWith(new URL(url).pathname)
        ) || /^\/(interaction|device|jwks|login)/.test(pathname);
        if (!isOidc) {
          return await answer(request);
        }
        return await forward(request, name, request.body ? await request.arrayBuffer() : undefined);
      },
    );
    servers.set(name, server);
  }
  const proxy = new HttpProxy({ to: (host) => servers.get(host)?.addr.port });
  const caFile = join(folder, "ca/ca.crt");
  useHostNetwork({ proxy: { url: proxy.url }, extra_ca_file: caFile });
  const client = Deno.createHttpClient({
    proxy: { url: proxy.url },
    caCerts: [await Deno.readTextFile(caFile)],
  });

  return {
    state,
    facts,
    definitions,
    folder,
    proxy,
    caFile,
    overrides: [...servers].map(([name, { addr }]) => `${name}:443=127.0.0.1:${addr.port}`).join(","),
    fetch: (url, init) => fetch(url, { ...init, client } as RequestInit),
    async browse(start) {
      const cookies = new Map<string, string>();
      for (let url = start;;) {
        const { protocol } = new URL(url);
        const response = await fetch(url, {
          redirect: "manual",
          headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") },
          ...(protocol === "https:" && { client }),
        } as RequestInit);
        await response.body?.cancel();
        for (const cookie of response.headers.getSetCookie()) {
          const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!;
          cookies.set(name, value);
        }
        const next = response.headers.get("location");
        if (next === null) return { status: response.status, url };
        url = new URL(next, url).href;
        if (facts.paste !== undefined && url.startsWith(facts.paste)) return { status: 200, url };
      }
    },
    async [Symbol.asyncDispose]() {
      useHostNetwork({});
      client.close();
      proxy[Symbol.dispose]();
      await Promise.all([...servers.values()].map((server) => server.shutdown()));
      await new Promise<void>((resolve) => inner.close(() => resolve()));
      inner.closeAllConnections();
      await Deno.remove(folder, { recursive: true });
    },
  };
}
