/** A person's login at an MCP server, its store, and the aggregator that uses it. */
import { join } from "node:path";
import { CredentialBroker, CredentialStore, type LoginPlace, Logins } from "../../lib/credential/mod.ts";
import { CredentialDenied } from "../../lib/network/interface/mod.ts";
import { type SessionLoginOptions, SessionLogins } from "../../lib/session/mcp.ts";
import { beginLogin, type LoginRequest } from "../../lib/mcp/oauth/mod.ts";
import { TestAggregator } from "./mcp_aggregator.ts";
import { definition, type Loopback } from "./mcp_server.ts";
import {
  browse,
  type OauthScript,
  type OauthServer,
  oauthServer,
  type ProtectedScript,
  protectedServer,
} from "./oauth_server.ts";

export interface LoginWorld {
  oauth: OauthServer;
  server: Loopback;
  place: LoginPlace;
  store: CredentialStore;
  logins: Logins;
  broker: CredentialBroker;
  /** reads the store's file */
  fileText(): string;
  /** logs in as a person who allows everything */
  login(request?: Partial<LoginRequest>): Promise<void>;
  /** logins as a session of the profile has them */
  session(options?: Partial<SessionLoginOptions>): SessionLogins;
  /** an aggregator with the server as `s` */
  aggregator(logins?: SessionLogins): Promise<TestAggregator>;
}

/** Runs `use` with an authorization server, an MCP server behind it, and an empty store. */
export async function withLogin(
  { oauth: oauthScript, server: serverScript }: { oauth?: OauthScript; server?: ProtectedScript },
  use: (world: LoginWorld) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const oauth = oauthServer(oauthScript);
  const server = protectedServer(oauth, serverScript);
  const store = new CredentialStore(join(dir, "store.json"));
  const logins = new Logins(store);
  const place: LoginPlace = { profile: "code", server: "s", url: server.url };
  const broker = await CredentialBroker.open({ store, providers: ["mcp"] });
  const aggregators: TestAggregator[] = [];
  const session = (options: Partial<SessionLoginOptions> = {}) =>
    new SessionLogins({
      logins,
      profile: "code",
      isAllowed: () => true,
      use: async (ref, to, login) => {
        try {
          return (await broker.use(ref, to, login)).secret;
        } catch (error) {
          if (error instanceof CredentialDenied) return undefined;
          throw error;
        }
      },
      ...options,
    });
  try {
    await use({
      oauth,
      server,
      place,
      store,
      logins,
      broker,
      fileText: () => Deno.readTextFileSync(store.path),
      login: async (request) => {
        const waiting = await beginLogin({ url: new URL(server.url), ...request });
        await browse(waiting.url);
        await logins.save(place, await waiting.finished);
      },
      session,
      aggregator: async (logins = session()) => {
        const aggregator = await TestAggregator.start([definition("s", server.url)], { logins });
        aggregators.push(aggregator);
        return aggregator;
      },
    });
  } finally {
    for (const aggregator of aggregators) await aggregator.close();
    await broker.close();
    await Promise.all([oauth.close(), server.close()]);
    await Deno.remove(dir, { recursive: true });
  }
}
