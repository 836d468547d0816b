/** The read-only service: accounts of a real OpenID provider, teams, roles, and the log of who asked what. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";
import { SbxError } from "../../lib/base/error/mod.ts";
import { readAsked, readReaderFile, serveReader } from "../../lib/fleet/reader/mod.ts";
import type { FleetServer } from "../../lib/fleet/receive/mod.ts";
import { openRecords, writeTables } from "../../lib/fleet/table/mod.ts";
import { record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../helper/fleet.ts";

const SECRET = "a secret of the client, for tests";
const AUDIENCE = "https://fleet.example.com";

interface Idp extends AsyncDisposable {
  issuer: string;
  /** account that logs in next, with its groups */
  next: { subject: string; groups: string[] };
}

/** `oidc-provider` on loopback, whose accounts log in at once. */
async function startIdp(redirect: () => string): Promise<Idp> {
  const groups = new Map<string, string[]>();
  const server = createServer(async (request, response) => {
    if (!request.url?.startsWith("/interaction/")) return oidc.callback()(request, response);
    const { params } = await oidc.interactionDetails(request, response);
    groups.set(idp.next.subject, idp.next.groups);
    const grant = new oidc.Grant({ accountId: idp.next.subject, clientId: String(params.client_id) });
    grant.addOIDCScope(String(params.scope));
    const result = { login: { accountId: idp.next.subject }, consent: { grantId: await grant.save() } };
    await oidc.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const oidc = new Provider(issuer, {
    clients: [{
      client_id: "sbx-fleet",
      client_secret: SECRET,
      redirect_uris: [redirect()],
      grant_types: ["authorization_code", "client_credentials"],
    }],
    scopes: ["openid", "profile"],
    claims: { openid: ["sub"], profile: ["email", "groups"] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_ctx: unknown, audience: string) => ({
          scope: "read",
          audience,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
    extraTokenClaims: () => ({ groups: ["robots"] }),
    pkce: { required: () => true },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_ctx: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, groups: groups.get(id) }),
    }),
    cookies: { keys: ["test"] },
    // deno-lint-ignore no-explicit-any
  } as any);
  const idp: Idp = {
    issuer,
    next: { subject: "ann", groups: [] },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return idp;
}

/** A browser: follows redirects with the cookies of each server. */
class Browser {
  readonly jars = new Map<string, Map<string, string>>();

  async go(url: string, init: RequestInit = {}): Promise<{ status: number; text: string; url: string }> {
    for (let hops = 0; hops < 10; hops++) {
      const { origin } = new URL(url);
      const jar = this.jars.get(origin) ?? new Map<string, string>();
      this.jars.set(origin, jar);
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
      const response = await fetch(url, {
        ...init,
        redirect: "manual",
        headers: { ...init.headers, cookie },
      });
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
        if (/Max-Age=0/i.test(line)) jar.delete(name);
        else jar.set(name, value);
      }
      const text = await response.text();
      const location = response.headers.get("location");
      if (response.status < 300 || response.status >= 400 || !location) {
        return { status: response.status, text, url };
      }
      url = new URL(location, url).href;
      init = {};
    }
    throw new Error("too many redirects");
  }
}

class World implements AsyncDisposable {
  private constructor(
    readonly fleet: TestFleet,
    readonly idp: Idp,
    readonly reader: FleetServer,
    readonly url: string,
  ) {}

  static async start(): Promise<World> {
    const fleet = await TestFleet.start();
    for (
      const [name, team, session] of [["laptop-1", "payments", SESSION_A], ["laptop-2", "search", SESSION_B]]
    ) {
      const key = await fleet.machine(name, team);
      const path = `${fleet.dir}/${name}.db`;
      await record(path, session, [{ event: webEvent(session, "shared.example.com", "/<script>") }]);
      await fleet.shipper(key).ship(session, path);
    }
    await writeTables(fleet.store);
    const free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = free.addr as Deno.NetAddr;
    free.close();
    const url = `http://127.0.0.1:${port}`;
    const idp = await startIdp(() => `${url}/callback`);
    await Deno.writeTextFile(
      `${fleet.store}/reader.toml`,
      `[oidc]
issuer = "${idp.issuer}"
client_id = "sbx-fleet"
public_url = "${url}"
audience = "${AUDIENCE}"

[[grant]]
groups = ["security"]
role = "analyst"
teams = ["*"]

[[grant]]
groups = ["payments-leads", "robots"]
role = "analyst"
teams = ["payments"]
questions = ["reached-host", "silent"]

[[grant]]
subjects = ["zoe"]
role = "auditor"
`,
    );
    const reader = await serveReader({
      dir: fleet.store,
      config: await readReaderFile(fleet.store),
      secret: SECRET,
      hostname: "127.0.0.1",
      port,
      open: async () => {
        const records = await openRecords(`duckdb://${fleet.store}`);
        return { ...records, table: records.table! };
      },
    });
    return new World(fleet, idp, reader, url);
  }

  async browser(
    subject: string,
    groups: string[],
  ): Promise<{ browser: Browser; status: number; text: string }> {
    this.idp.next = { subject, groups };
    const browser = new Browser();
    const { status, text } = await browser.go(this.url);
    return { browser, status, text };
  }

  ask(browser: Browser, question: unknown, origin = this.url) {
    return browser.go(`${this.url}/v1/ask`, {
      method: "POST",
      headers: { origin, "content-type": "application/json" },
      body: JSON.stringify(question),
    });
  }

  async [Symbol.asyncDispose]() {
    await this.reader.shutdown();
    await this.idp[Symbol.asyncDispose]();
    await this.fleet[Symbol.asyncDispose]();
  }
}

const REACHED = { question: "reached-host", value: "shared.example.com", days: 36_500 };
const sessionsOf = (text: string) =>
  JSON.parse(text).rows.map((row: { session: string }) => row.session).sort();

Deno.test("people of a company log in, and see the rows of their teams alone", async () => {
  await using world = await World.start();
  const ann = await world.browser("ann", ["security"]);
  assertEquals(ann.status, 200);
  assertMatch(ann.text, /<option value="left">/);
  const all = await world.ask(ann.browser, REACHED);
  assertEquals(sessionsOf(all.text), [SESSION_A, SESSION_B]);

  const bob = await world.browser("bob", ["payments-leads"]);
  assert(!bob.text.includes('value="left"'));
  const own = await world.ask(bob.browser, REACHED);
  assertEquals(sessionsOf(own.text), [SESSION_A]);
  assertEquals(
    JSON.parse((await world.ask(bob.browser, { question: "silent" })).text).rows.map((
      { machine }: { machine: string },
    ) => machine),
    ["laptop-1"],
  );
  // Another team's session is in no row, and another question is refused.
  assertEquals((await world.ask(bob.browser, { question: "left", value: SESSION_B })).status, 403);
  const hostile = await world.ask(bob.browser, { ...REACHED, value: "x' OR 1 = 1 --" });
  assertEquals(JSON.parse(hostile.text).rows, []);

  const page = await ann.browser.go(`${world.url}/ask`, {
    method: "POST",
    headers: { origin: world.url, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ question: "fetched", value: "<script>", days: "36500" }),
  });
  assertMatch(page.text, /<td>laptop-1<\/td>/);
  assert(!page.text.includes("<script>"));

  // Who has no grant gets no session, and is on record.
  const eve = await world.browser("eve", ["sales"]);
  assertEquals(eve.status, 403);
  assertEquals([...eve.browser.jars.get(world.url)!.keys()], ["sbx_login"]);

  const zoe = await world.browser("zoe", []);
  assertMatch(zoe.text, /may ask no question/);
  assertEquals((await world.ask(zoe.browser, REACHED)).status, 403);
  const shown = await zoe.browser.go(`${world.url}/v1/asked`);
  const lines = JSON.parse(shown.text).asked.map((
    { subject, question, outcome, teams }: Record<string, unknown>,
  ) => [subject, question, outcome, teams]);
  assertEquals(lines, [
    ["ann", "log in", "allowed", []],
    ["ann", "reached-host", "allowed", ["*"]],
    ["bob", "log in", "allowed", []],
    ["bob", "reached-host", "allowed", ["payments"]],
    ["bob", "silent", "allowed", ["payments"]],
    ["bob", "left", "denied", []],
    ["bob", "reached-host", "allowed", ["payments"]],
    ["ann", "fetched", "allowed", ["*"]],
    ["eve", "log in", "denied", []],
    ["zoe", "log in", "allowed", []],
    ["zoe", "reached-host", "denied", []],
    ["zoe", "asked", "allowed", []],
  ]);
  assertEquals((await ann.browser.go(`${world.url}/v1/asked`)).status, 403);
  const { asked, problem } = await readAsked(world.fleet.store);
  assertEquals([asked.length, asked.at(-1)!.outcome, problem], [13, "denied", undefined]);

  // A line that is changed or taken out is named.
  const path = `${world.fleet.store}/asked.jsonl`;
  const text = await Deno.readTextFile(path);
  await Deno.writeTextFile(path, text.split("\n").toSpliced(3, 1).join("\n"));
  assertEquals((await readAsked(world.fleet.store)).problem, "line 4 does not follow the one before");
});

Deno.test("programs ask with a token of the provider that is for this service, and no other counts", async () => {
  await using world = await World.start();
  const tokenFor = async (resource?: string) => {
    const response = await fetch(`${world.idp.issuer}/token`, {
      method: "POST",
      headers: { authorization: `Basic ${btoa(`sbx-fleet:${encodeURIComponent(SECRET)}`)}` },
      body: new URLSearchParams({
        grant_type: "client_credentials",
        ...(resource && { resource, scope: "read" }),
      }),
    });
    const body = await response.json();
    assert(body.access_token, JSON.stringify(body));
    return body.access_token as string;
  };
  const ask = async (authorization: string) => {
    const response = await fetch(`${world.url}/v1/ask`, {
      method: "POST",
      headers: { authorization },
      body: JSON.stringify(REACHED),
    });
    return { status: response.status, text: await response.text() };
  };
  const good = await tokenFor(AUDIENCE);
  const own = await ask(`Bearer ${good}`);
  assertEquals([own.status, sessionsOf(own.text)], [200, [SESSION_A]]);
  const [head, payload, signature] = good.split(".");
  const changed = btoa(atob(payload.replaceAll("-", "+").replaceAll("_", "/")).replace("robots", "security"))
    .replace(/=+$/, "");
  for (
    const bad of [
      `Bearer ${await tokenFor("https://other.example.com")}`,
      `Bearer ${await tokenFor()}`,
      `Bearer ${head}.${changed}.${signature}`,
      `Bearer ${btoa('{"alg":"none","typ":"at+jwt"}')}.${payload}.`,
      "Bearer x",
      "Basic eDp5",
    ]
  ) {
    assertEquals((await ask(bad)).status, 401, bad.slice(0, 40));
  }
  assertEquals((await readAsked(world.fleet.store)).asked.length, 1);
});

Deno.test("another site, another browser and an answer that is too late ask nothing", async () => {
  await using world = await World.start();
  const { browser } = await world.browser("ann", ["security"]);
  assertEquals((await world.ask(browser, REACHED, "https://evil.example.com")).status, 403);
  assertEquals((await world.ask(new Browser(), REACHED)).status, 401);
  // A code that another browser got, and one that comes twice.
  const stolen = new Browser();
  assertEquals((await stolen.go(`${world.url}/callback?code=x&state=y`)).status, 403);
  const began = await fetch(`${world.url}/login`, { redirect: "manual" });
  await began.body?.cancel();
  const login = began.headers.getSetCookie()[0].split(";")[0];
  const forged = await fetch(`${world.url}/callback?code=x&state=y&iss=${world.idp.issuer}`, {
    headers: { cookie: login },
    redirect: "manual",
  });
  assertEquals([forged.status, (await forged.json()).code], [403, "fleet.login.failed"]);
  for (
    const bad of [{ question: "left" }, { question: "x" }, { ...REACHED, sql: "SELECT 1" }, {
      ...REACHED,
      days: 0,
    }]
  ) {
    const { status } = await world.ask(browser, bad);
    assert(status >= 400 && status < 500, `${status} ${JSON.stringify(bad)}`);
  }
  const big = await world.ask(browser, { ...REACHED, value: "x".repeat(10_000) });
  assertEquals(big.status, 413);
  // Nothing is answered that cannot be put on record.
  await Deno.remove(`${world.fleet.store}/asked.jsonl`);
  await Deno.mkdir(`${world.fleet.store}/asked.jsonl`);
  const unrecorded = await world.ask(browser, REACHED);
  assertEquals([unrecorded.status >= 500, unrecorded.text.includes(SESSION_A)], [true, false]);
});

Deno.test("a file of terms with a wrong word, an insecure provider or no one in a grant is refused", async () => {
  const dir = await Deno.makeTempDir();
  const good =
    '[oidc]\nissuer = "https://id.example.com"\nclient_id = "a"\npublic_url = "https://f.example.com"\n';
  const grant = '[[grant]]\ngroups = ["a"]\nrole = "analyst"\nteams = ["*"]\n';
  const read = async (text: string) => {
    await Deno.writeTextFile(`${dir}/reader.toml`, text);
    return await readReaderFile(dir);
  };
  assertEquals((await read(good + grant)).grant.length, 1);
  for (
    const bad of [
      good.replace("https://id", "http://id") + grant,
      `${good}admin = true\n${grant}`,
      good + grant.replace('groups = ["a"]\n', ""),
      good + grant.replace('teams = ["*"]\n', ""),
      good + grant.replace("analyst", "root"),
    ]
  ) {
    assertEquals((await assertRejects(() => read(bad), SbxError)).code, "fleet.reader.invalid");
  }
  await Deno.remove(dir, { recursive: true });
});
