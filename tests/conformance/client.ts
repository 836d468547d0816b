/**
 * Runs the real sbx-mcp-aggregator against the server of one scenario of the conformance suite: connects,
 * lists, and calls every tool. Where a login is needed, a person logs in, whose browser follows the URL at
 * once. The last argument is the server's URL.
 */
import { join } from "node:path";
import { CredentialBroker, CredentialStore, type LoginPlace, Logins } from "../../lib/credential/mod.ts";
import { defaultsOf } from "../../lib/mcp/endpoint/mod.ts";
import { Aggregator, type AggregatorDefinition } from "../../lib/mcp/mod.ts";
import { beginLogin } from "../../lib/mcp/oauth/mod.ts";
import { SessionLogins } from "../../lib/session/mcp.ts";
import { browse } from "../helper/oauth_server.ts";
import { fromRoot } from "../helper/repo.ts";

/** Logins of a person who follows every advice. */
const LOGINS_MAX = 2;

const url = Deno.args.at(-1)!;
const dir = await Deno.makeTempDir({ prefix: "sbx-conformance-" });
const store = new CredentialStore(join(dir, "store.json"));
const logins = new Logins(store);
const broker = await CredentialBroker.open({ store, providers: ["mcp"] });
const place: LoginPlace = { profile: "code", server: "suite", url };
/** a client that the suite registered by hand */
const context = JSON.parse(Deno.env.get("MCP_CONFORMANCE_CONTEXT") || "{}");
/** a client that is described by a document, for the scenario about those */
if (Deno.env.get("MCP_CONFORMANCE_SCENARIO") === "auth/basic-cimd") {
  context.client_id = "https://conformance-test.local/client-metadata.json";
}
const definitions: AggregatorDefinition[] = [
  {
    name: "suite",
    url,
    headers: {},
    enabled: true,
    source: "test",
    unsupported_stdio: false,
    auth: undefined,
  },
];
const aggregator = await Aggregator.start({
  definitions,
  dir,
  command: [fromRoot("bin/sbx-mcp-aggregator")],
  log: (line) => console.error(line),
  logins: new SessionLogins({
    logins,
    profile: "code",
    isAllowed: () => true,
    use: async (ref, to, login) => (await broker.use(ref, to, login)).secret,
  }),
});
// A person who allows every question, without a program of a guest to fill the form in.
aggregator.answerRequests(({ params }) => {
  const content = defaultsOf(params);
  return Promise.resolve(content ? { action: "accept", content } : { action: "decline" });
});
try {
  let problems = await useAll();
  for (let times = 0; times < LOGINS_MAX && problems.includes("sbx mcp login"); times++) {
    await login();
    await aggregator.refresh(definitions);
    problems = await useAll();
  }
  await Promise.all([aggregator.listResources(), aggregator.listPrompts()]);
  const [server] = await aggregator.listServers();
  console.log(JSON.stringify(server));
  Deno.exitCode = server.connected ? 0 : 1;
} finally {
  await aggregator.close();
  await broker.close();
  await Deno.remove(dir, { recursive: true });
}

/** Lists and calls every tool. @returns what went wrong, as text */
async function useAll(): Promise<string> {
  const problems: string[] = [];
  for (const { namespaced_name, input_schema } of await aggregator.listTools()) {
    const result = await aggregator.callTool(namespaced_name, argumentsFor(input_schema)).catch((error) => {
      problems.push(error.message);
      return error.message;
    });
    console.log(namespaced_name, JSON.stringify(result));
  }
  const [{ last_error = "" }] = await aggregator.listServers();
  return [last_error, ...problems].join("\n");
}

/** Logs in as `sbx mcp login` does. */
async function login(): Promise<void> {
  const { client_id: id, client_secret: secret } = context;
  const before = logins.find(place)?.terms;
  const waiting = await beginLogin({
    url: new URL(url),
    scope: before?.wanted_scope && `${before.scope} ${before.wanted_scope}`,
    ...(id && { client: { id, secret: () => Promise.resolve(secret) } }),
  });
  await browse(waiting.url);
  await logins.save(place, await waiting.finished);
}

/** Arguments for every property of a tool's schema. */
function argumentsFor(schema: Record<string, unknown>): Record<string, unknown> {
  const properties = (schema.properties ?? {}) as Record<string, { type?: string }>;
  return Object.fromEntries(
    Object.entries(properties).map(([name, { type }]) => [
      name,
      type === "number" || type === "integer" ? 5 : type === "boolean" ? true : "text",
    ]),
  );
}
