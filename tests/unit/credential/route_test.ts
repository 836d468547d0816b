/**
 * Routes of the service for credentials, whose answers never hold a secret
 * (docs/design/contracts/09-credentials.md §9).
 */
import { assert, assertEquals } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { routeCredentials } from "../../../cmd/service/routes/credentials.ts";
import {
  type CredentialAudit,
  CredentialList,
  credentialRoutes,
  ProviderList,
} from "../../../lib/client/api/credential.ts";
import { errorBody, type SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { DEFINITIONS, PROVIDERS, refOf } from "../../../lib/credential/mod.ts";
import type { CredentialSubstitution, Event } from "../../../lib/event/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { type GrantedVm, SecretPrograms } from "../../../lib/service/mod.ts";
import { KEY } from "../../helper/credential.ts";
import type { Parsed } from "../../helper/json.ts";
import { keyTerms, makeKey } from "../../helper/signing.ts";

const SECRET = "sk-ant-api03-" + "route".repeat(10);

async function withApp(
  run: (call: Call, dir: string) => Promise<void>,
  running: GrantedVm[] = [],
) {
  const dir = await Deno.makeTempDir();
  const app = new Hono();
  app.onError((error, context) =>
    context.json(
      errorBody(error as unknown as SbxError),
      statusOf((error as unknown as SbxError).code) as 500,
    )
  );
  const ofDir = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const secrets = new SecretPrograms(ofDir, { alive: () => [] });
  routeCredentials(app, ofDir, {
    secrets,
    runningVms: () => Promise.resolve(running),
    sessions: () => Promise.resolve([{ id: "one", name: "web" }]),
  });
  const call: Call = async (method, path, json) => {
    const response = await app.request(path, {
      method,
      ...(json !== undefined &&
        { body: JSON.stringify(json), headers: { "content-type": "application/json" } }),
    });
    const text = await response.text();
    assert(!text.includes(SECRET) && !text.includes("sealed"), "an answer holds a secret");
    return { status: response.status, body: JSON.parse(text) };
  };
  try {
    await run(call, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

type Call = (method: string, path: string, json?: unknown) => Promise<{ status: number; body: Parsed }>;

Deno.test("the API, the broker and profiles know the same providers", () =>
  withApp(async (call) => {
    const { providers } = ProviderList.parse((await call("GET", "/credentials/providers")).body);
    assertEquals(providers.map(({ id }) => id), [...PROVIDERS]);
    assertEquals(Object.keys(credentialRoutes), ["list", "providers", "add", "revoke", "audit"]);
  }));

Deno.test("a key is added for every provider, with a host where its service runs at many", () =>
  withApp(async (call) => {
    for (const { id, hosts, named_hosts, database, signed_hosts, commits, ssh } of DEFINITIONS) {
      // Keys of SSH and of commits have forms and tests of their own.
      if (commits || ssh) continue;
      const host = named_hosts?.[0] === "*" ? "mine.example" : named_hosts?.[0].replace("*", "mine");
      const body = {
        provider: id,
        secret: `a-secret${signed_hosts ? ":" : "-"}of-${id}-keys`,
        ...(hosts.length === 0 && { host }),
      };
      const added = await call("POST", "/credentials/add", body);
      assertEquals([added.status, added.body.provider, added.body.running], [200, id, []]);
      const other = await call("POST", "/credentials/add", { ...body, host: "github.com" });
      // Only a key of a server of one's own may be for another provider's host;
      // no request carries a database's.
      assertEquals(other.status, id === "mcp" || database ? 200 : 400, id);
    }
    const { body } = await call("POST", "/credentials/add", { provider: "ghcr", secret: "a-secret-of-ghcr" });
    assertEquals(body.provider, "github");
    const half = await call("POST", "/credentials/add", { provider: "aws", secret: "AKIAQQQQQQQQQQQQQQQQ" });
    assertEquals([half.status, half.body.code], [400, "credential.invalid"]);
    const pages = { provider: "gitlab", secret: SECRET, host: "someone.gitlab.io" };
    assertEquals((await call("POST", "/credentials/add", pages)).status, 400);
  }));

Deno.test("one VM's login may be for a part of its provider's hosts", () =>
  withApp(async (call) => {
    const add = (more: object) =>
      call("POST", "/credentials/add", { provider: "github", secret: "a-login-of-a-registry", ...more });
    const { status, body } = await add({ host: "ghcr.io", vm: "vm-a" });
    assertEquals([status, body.hosts], [200, ["ghcr.io"]]);
    for (const more of [{ host: "ghcr.io" }, { host: "evil.example", vm: "vm-a" }]) {
      assertEquals((await add(more)).status, 400);
    }
  }));

Deno.test("a database's password has a port, and terms that fit it", () =>
  withApp(async (call) => {
    const body = { provider: "pg", secret: "a-secret-of-postgres", host: "db.mine.example" };
    const add = (changes: object) => call("POST", "/credentials/add", { ...body, ...changes });
    const { body: added } = await add({ database: { user: "app", name: "shop", md5: true } });
    const { hosts, provider, database } = added;
    assertEquals([provider, hosts], ["postgres", ["db.mine.example:5432"]]);
    assertEquals(database, { user: "app", name: "shop", md5: true });
    // The same password for another user or database is a credential of its own; two
    // sets of terms for one are not.
    const twins = await Promise.all(
      [{ user: "other", name: "shop" }, { user: "app", name: "more" }].map((terms) =>
        add({ database: terms })
      ),
    );
    assertEquals(new Set([added.ref, ...twins.map((twin) => twin.body.ref)]).size, 3);
    const again = await add({ database: { user: "app", name: "shop", md5: true } });
    assertEquals(again.body.ref, added.ref);
    // Once the first one is revoked, the others stay where they are: of two entries,
    // one would outlive its revocation.
    assertEquals((await call("DELETE", `/credentials/${encodeURIComponent(added.ref)}`)).status, 200);
    const [other] = twins;
    assertEquals((await add({ database: { user: "other", name: "shop" } })).body.ref, other.body.ref);
    assertEquals((await add({ database: { user: "app", name: "shop", md5: true } })).body.ref, added.ref);
    const conflict = await add({ database: { user: "app", name: "shop" } });
    assertEquals([conflict.status, conflict.body.code], [409, "credential.conflict"]);
    for (const host of ["db.mine.example", "10.0.0.1:5432", "localhost.mine.example"]) {
      assertEquals(
        (await add({ secret: "another-secret-1", host, database: { tls: "off" } })).status,
        400,
        host,
      );
    }
    for (const host of ["localhost", "127.0.0.1:5433", "postgres.host.sbx"]) {
      assertEquals(
        (await add({ secret: `a-secret-${host}`, host, database: { tls: "off" } })).status,
        200,
        host,
      );
    }
    assertEquals((await add({ provider: "mcp", database: { user: "app" } })).status, 400);
  }));

Deno.test("an answer names the running VMs that may use a new key", () =>
  withApp(async (call) => {
    const added = await call("POST", "/credentials/add", { provider: "npm", secret: SECRET });
    assertEquals(added.body.running, [{ name: "web", variables: ["NPM_TOKEN", "NODE_AUTH_TOKEN"] }]);
    const decoy = await call("POST", "/credentials/add", { provider: "npm", decoy: true });
    assertEquals(decoy.body.running, []);
  }, [
    { name: "web", granted: { providers: ["npm"] } },
    { name: "other", granted: { providers: ["github"] } },
    { name: "narrow", granted: { providers: ["npm"], labels: [{ npm: ["work"] }] } },
  ]));

Deno.test("credentials are added, listed and revoked, and no answer holds a secret", () =>
  withApp(async (call) => {
    assertEquals((await call("GET", "/credentials/list")).body, { credentials: [] });
    const added = await call("POST", "/credentials/add", {
      provider: "anthropic",
      secret: SECRET,
      label: "work",
    });
    const ref = refOf("anthropic", SECRET);
    assertEquals([added.status, added.body.ref, added.body.label, added.body.decoy], [
      200,
      ref,
      "work",
      false,
    ]);
    const mcp = { provider: "mcp", secret: "a-secret-of-mcp", host: "mcp.example.com:8443" };
    assertEquals((await call("POST", "/credentials/add", mcp)).body.hosts, ["mcp.example.com:8443"]);
    assertEquals(
      (await call("POST", "/credentials/add", { provider: "github", decoy: true })).body.decoy,
      true,
    );
    const { body } = await call("GET", "/credentials/list");
    assertEquals(CredentialList.parse(body).credentials.map(({ provider }) => provider), [
      "anthropic",
      "mcp",
      "github",
    ]);
    for (const path of [ref, encodeURIComponent(ref)]) {
      const revoked = await call("DELETE", `/credentials/${path}`);
      assert(revoked.status === 200 && revoked.body.revoked_at !== undefined);
    }
  }));

Deno.test("an invalid credential is refused, and the error does not repeat it", () =>
  withApp(async (call) => {
    const cases: [status: number, body: unknown][] = [
      [400, { provider: "anthropic", secret: "short" }],
      [400, { provider: "anthropic", secret: `${SECRET} ${SECRET}` }],
      [400, { provider: "anthropic" }],
      [400, { provider: "mcp", secret: SECRET }],
      [400, { provider: "github", secret: SECRET, host: "evil.example" }],
      [400, { provider: "mcp", secret: SECRET, host: "https://evil.example/" }],
      [400, { provider: "aws", secret: SECRET }],
      [400, { provider: "github", secret: SECRET, label: "a\nb" }],
      [400, { provider: "github", secret: SECRET, label: `work ${KEY.github}` }],
      [400, { provider: "github", secret: SECRET, label: "Zx8kQ2mN7pR4sT9vW1yB" }],
      [400, { provider: "mcp", secret: SECRET, host: KEY.anthropic.toLowerCase().slice(0, 60) }],
      [422, { provider: "github", secret: SECRET, source: "captured" }],
      [422, [SECRET]],
    ];
    for (const [status, body] of cases) {
      assertEquals((await call("POST", "/credentials/add", body)).status, status, JSON.stringify(body));
    }
    for (const path of ["nobody", refOf("github", "not there at all")]) {
      const { status, body } = await call("DELETE", `/credentials/${path}`);
      assertEquals([status, body.code], [404, "credential.not_found"]);
    }
  }));

/** A ledger with these rows. */
async function ledger(dir: string, id: string, rows: CredentialSubstitution[], at: number) {
  await Deno.mkdir(join(dir, "ledgers", id), { recursive: true });
  const ledger = await Ledger.open(join(dir, "ledgers", id, "session.db"), { sessionId: id });
  for (const [index, substitution] of rows.entries()) {
    const event: Event = {
      schema_version: 1,
      common: {
        event_id: (at + index).toString(16).padStart(12, "0"),
        event_type: "credential.substitution",
        session_id: id,
        vm_id: id,
        profile_id: "code",
        profile_revision: "1.0.0",
        timestamp_unix_ms: at + index,
        sequence: 0,
        source_engine: "network",
        enforceability: "observe_only",
        actor: "vm",
        labels: {},
      },
      credential: { substitution },
    };
    ledger.append({ event });
  }
  await ledger.close();
}

Deno.test("the audit counts uses by VM, host, place and outcome, however many a guest makes", () =>
  withApp(async (call, dir) => {
    await call("POST", "/credentials/add", { provider: "anthropic", secret: SECRET, label: "work" });
    const row = (host: string, outcome: "injected" | "denied", reason?: string): CredentialSubstitution => ({
      provider: "anthropic",
      credential_ref: refOf("anthropic", SECRET),
      host,
      location: "x-api-key",
      outcome,
      ...(reason !== undefined && { reason }),
    });
    const good = row("api.anthropic.com", "injected");
    await ledger(dir, "one", [good, row("evil.example", "denied", "unknown ref"), good, good], 1000);
    const { uses } = (await call("GET", "/credentials/audit?limit=1")).body as CredentialAudit;
    const shared = { session_id: "one", vm: "web", provider: "anthropic", label: "work" };
    assertEquals(
      uses.map(({ credential_ref: _, location: __, ...use }) => use),
      [
        {
          ...shared,
          ...{ host: "api.anthropic.com", outcome: "injected", count: 3 },
          ...{ first_unix_ms: 1000, last_unix_ms: 1003 },
        },
        {
          ...shared,
          ...{ host: "evil.example", outcome: "denied", reason: "unknown ref", count: 1 },
          ...{ first_unix_ms: 1001, last_unix_ms: 1001 },
        },
      ],
    );
    const many = Array.from({ length: 1200 }, (_, at) => row(`h${at}.evil.example`, "denied", "unknown ref"));
    await ledger(dir, "two", many, 5000);
    const all = (await call("GET", "/credentials/audit")).body as CredentialAudit;
    assertEquals([all.uses.length, all.uses_truncated, all.rows.length], [1000, true, 100]);
    assertEquals(all.rows[0].host, "h1199.evil.example");
  }));

Deno.test("the audit shows the substitutions of all sessions, latest first", () =>
  withApp(async (call, dir) => {
    assertEquals((await call("GET", "/credentials/audit")).body, {
      rows: [],
      truncated: false,
      uses: [],
      uses_truncated: false,
      unreadable: [],
    });
    const row = (outcome: CredentialSubstitution["outcome"]): CredentialSubstitution => ({
      provider: "anthropic",
      credential_ref: refOf("anthropic", SECRET),
      host: "api.anthropic.com",
      location: "x-api-key",
      outcome,
    });
    await ledger(dir, "one", [row("captured"), row("injected")], 1000);
    await ledger(dir, "two", [{ ...row("denied"), reason: "revoked" }], 2000);
    await Deno.mkdir(join(dir, "ledgers", "broken"));
    await Deno.writeTextFile(join(dir, "ledgers", "broken", "session.db"), "no database");
    const audit = async (query = "") =>
      (await call("GET", `/credentials/audit${query}`)).body as CredentialAudit;
    const outcomes = ({ rows }: CredentialAudit) =>
      rows.map(({ session_id, outcome }) => `${session_id} ${outcome}`);
    const all = await audit();
    assertEquals(outcomes(all), ["two denied", "one injected", "one captured"]);
    assertEquals([all.unreadable, all.truncated, all.rows[0].reason], [["broken"], false, "revoked"]);
    assertEquals(outcomes(await audit("?limit=1")), ["two denied"]);
    assertEquals((await audit("?limit=1")).truncated, true);
    assertEquals(outcomes(await audit("?session=one&outcome=injected")), ["one injected"]);
    assertEquals(outcomes(await audit(`?ref=${refOf("github", SECRET)}`)), []);
    assertEquals(outcomes(await audit("?vm=web")), ["one injected", "one captured"]);
    assertEquals(outcomes(await audit("?vm=two")), ["two denied"]);
    assertEquals(outcomes(await audit("?vm=nobody")), []);
    assertEquals(outcomes(await audit("?since=1001")), ["two denied", "one injected"]);
  }));

Deno.test("keys that sign are proved, and lists show their fingerprint and no private half", () =>
  withApp(async (call) => {
    const dir = await Deno.makeTempDir();
    try {
      const [{ terms, secret }, other] = [
        await keyTerms(await makeKey(dir)),
        await keyTerms(await makeKey(dir)),
      ];
      const add = (more: object) => call("POST", "/credentials/add", { provider: "signing", ...more });
      const signing = { public: terms.public, emails: ["ann@example.com"] };
      const added = await add({ secret, signing });
      assertEquals([added.status, added.body.signing.fingerprint], [200, terms.fingerprint]);
      const { body } = await call("GET", "/credentials/list");
      assert(!JSON.stringify(body).includes(secret));
      const agent = await add({ signing: { ...signing, agent: "/run/agent" } });
      assertEquals([agent.status, agent.body.signing.from], [200, "agent"]);
      for (
        const [more, code] of [
          [{ secret: other.secret, signing }, "credential.invalid"],
          [{ signing }, "credential.invalid"],
          [{ secret }, "credential.invalid"],
          [{ secret, signing: { public: "ssh-ed25519 AAAA" } }, "sign.key.invalid"],
          [{ secret, signing: { ...signing, agent: "/run/agent" } }, "credential.invalid"],
          [{ secret, signing: { ...signing, agent: "agent" } }, "request.invalid"],
          [{ secret, signing: { ...signing, emails: ["* ssh-ed25519"] } }, "request.invalid"],
          [{ secret, signing: { ...signing, gpg: "0" } }, "credential.invalid"],
          [{ signing: { gpg: "--export-secret-keys" } }, "sign.key.invalid"],
          [{ secret, signing, host: "example.com" }, "credential.invalid"],
          [{ secret, signing, decoy: true }, "credential.invalid"],
          [{ provider: "anthropic", secret: SECRET, signing }, "credential.invalid"],
        ] as const
      ) assertEquals((await add(more)).body.code, code, JSON.stringify(more));
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }));
