/**
 * Which of several keys of one provider a VM uses
 * (docs/design/contracts/09-credentials.md §9, "Choice of a key").
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { requireKey } from "../../../cmd/sbx/start/agent_start.ts";
import { routeCredentials } from "../../../cmd/service/routes/credentials.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { type Agent, loadProfile, parseProfile, type Profile } from "../../../lib/config/profile/mod.ts";
import {
  awsKeysOf,
  CredentialBroker,
  CredentialStore,
  DEFINITIONS,
  type NewCredential,
  REASON,
  storePath,
  Subscriptions,
} from "../../../lib/credential/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { requireLabels } from "../../../lib/service/contract/labels.ts";
import { SecretPrograms } from "../../../lib/service/mod.ts";
import { grantOf } from "../../../lib/session/mod.ts";
import { KEY, to } from "../../helper/credential.ts";

const WORK = "sk-ant-api03-" + "work".repeat(12);
const HOME = "sk-ant-api03-" + "home".repeat(12);
const TOKEN = "sk-ant-oat01-" + "aZ7_".repeat(12);
const KEYS: NewCredential[] = [
  { provider: "anthropic", secret: WORK, label: "work" },
  { provider: "anthropic", secret: HOME, label: "home" },
  { provider: "anthropic", secret: KEY.anthropic },
  { provider: "github", secret: KEY.github },
];
const PROFILE = { rules: [], packs: [], mcp: {}, providers: ["anthropic", "github", "aws", "postgres"] };
const CORP = { rules: [], packs: [], mcp: {} };

interface World {
  store: CredentialStore;
  refs: string[];
  open(granted: ReturnType<typeof grantOf>): Promise<CredentialBroker>;
  place: ReturnType<typeof home>;
}

function withKeys(keys: NewCredential[], run: (world: World) => Promise<void>) {
  return async () => {
    const dir = await Deno.makeTempDir();
    const brokers: CredentialBroker[] = [];
    try {
      const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
      const store = new CredentialStore(storePath(place));
      const refs: string[] = [];
      for (const each of keys) refs.push((await store.add([each]))[0].ref);
      const open = async (granted: ReturnType<typeof grantOf>) => {
        const broker = await CredentialBroker.open({ store, vm: "vm-a", ...granted });
        brokers.push(broker);
        return broker;
      };
      await run({ store, refs, open, place });
    } finally {
      for (const broker of brokers) await broker.close();
      await Deno.remove(dir, { recursive: true });
    }
  };
}

const reasonOf = (act: () => unknown) => assertThrows(act, CredentialDenied).substitutions[0].reason;
const send = (broker: CredentialBroker, ref: string) =>
  broker.inject(to("api.anthropic.com"), [["x-api-key", ref]]).headers[0][1];

Deno.test(
  "a VM with a label uses that key, and the ref of another one is refused",
  withKeys(KEYS, async ({ refs: [work, home, last, github], open }) => {
    const any = await open(grantOf({ profile: PROFILE, corp: CORP }));
    assertEquals(any.guestEnv().ANTHROPIC_API_KEY, last);
    assertEquals([work, home, last].map((ref) => send(any, ref)), [WORK, HOME, KEY.anthropic]);

    const one = await open(grantOf({ profile: PROFILE, corp: CORP }, { anthropic: "work" }));
    assertEquals(one.guestEnv().ANTHROPIC_API_KEY, work);
    assertEquals(one.guestEnv().GITHUB_TOKEN, github);
    assertEquals(send(one, work), WORK);
    for (const other of [home, last]) assertEquals(reasonOf(() => send(one, other)), REASON.notChosen);
  }),
);

Deno.test(
  "profile and corp leave some labels, and a VM's choice is within both",
  withKeys(KEYS, async ({ refs: [work, home, last], open }) => {
    const profile = { ...PROFILE, provider_labels: { anthropic: ["work", "home"] } };
    const both = await open(grantOf({ profile, corp: CORP }));
    assertEquals(both.guestEnv().ANTHROPIC_API_KEY, home);
    assertEquals(reasonOf(() => send(both, last)), REASON.notChosen);
    const corp = { ...CORP, provider_labels: { anthropic: ["work"] } };
    const narrowed = await open(grantOf({ profile, corp }));
    assertEquals(narrowed.guestEnv().ANTHROPIC_API_KEY, work);
    const neither = await open(grantOf({ profile, corp }, { anthropic: "home" }));
    assertEquals(neither.guestEnv().ANTHROPIC_API_KEY, undefined);
    for (const ref of [work, home]) assertEquals(reasonOf(() => send(neither, ref)), REASON.notChosen);
  }),
);

Deno.test(
  "a label also chooses keys that sign, databases and logins of subscriptions",
  withKeys([
    { provider: "aws", secret: "AKIAIOSFODNN7EXAMPLE:" + "w".repeat(40), label: "work" },
    { provider: "aws", secret: "AKIAI44QH8DHBEXAMPLE:" + "h".repeat(40), label: "home" },
    {
      provider: "postgres",
      secret: "password-of-work",
      label: "work",
      hosts: ["db.example.com:5432"],
      database: { user: "work" },
    },
    {
      provider: "postgres",
      secret: "password-of-home",
      label: "home",
      hosts: ["db.example.com:5432"],
      database: { user: "home" },
    },
  ], async ({ store, open, refs }) => {
    const logins = new Subscriptions(store, DEFINITIONS);
    for (const label of ["work", "home"]) {
      await logins.save({ login: "claude", label }, {
        access: `sk-ant-oat01-${label.repeat(12)}`,
        refresh: `sk-ant-ort01-${label.repeat(12)}`,
        expires_at: Date.now() + 3_600_000,
        facts: {},
      });
    }
    const [work, other] = ["work", "home"].map((label) => logins.find({ login: "claude", label })!);
    const ids = async (label: string) => {
      const chosen = { aws: label, postgres: label, anthropic: label };
      const broker = await open(grantOf({ profile: PROFILE, corp: CORP }, chosen));
      return { broker, id: broker.guestEnv().AWS_ACCESS_KEY_ID };
    };
    const { broker, id } = await ids("work");
    assert(id !== undefined && id !== (await ids("home")).id && awsKeysOf(`${id}:${"x".repeat(40)}`));
    assertEquals(broker.databases("db.example.com", 5432).map(({ user }) => user), ["work"]);
    assertEquals(
      reasonOf(() => broker.login(refs[3], "db.example.com", 5432)),
      REASON.notChosen,
    );
    const [{ text }] = broker.guestFiles();
    assert(text.includes(work.access.ref) && !text.includes(other.access.ref));
    const models = (ref: string) =>
      broker.inject(to("api.anthropic.com"), [[":path", "/v1/messages"], ["authorization", `Bearer ${ref}`]]);
    assertEquals(models(work.access.ref).substitutions.map(({ outcome }) => outcome), ["injected"]);
    assertEquals(reasonOf(() => models(other.access.ref)), REASON.notChosen);
    // The refresh token of the other login renews nothing for this VM: the request goes on,
    // and is refused as it has a ref.
    const renewal = (ref: string) =>
      broker.attend({
        scheme: "https",
        host: "platform.claude.com",
        port: 443,
        method: "POST",
        path: "/v1/oauth/token",
        headers: [],
        body: new TextEncoder().encode(JSON.stringify({ grant_type: "refresh_token", refresh_token: ref })),
      });
    assertEquals((await renewal(work.refresh!.ref))?.status, 200);
    assertEquals(await renewal(other.refresh!.ref), undefined);
  }),
);

Deno.test(
  "a new VM names a label that exists, of a provider that its profile grants, and that profile and corp leave",
  withKeys(KEYS, async ({ place, store, refs: [work] }) => {
    const granted = grantOf({ profile: PROFILE, corp: CORP });
    const refusal = (chosen: Record<string, string>, terms = granted) => {
      const { code, message, hint } = assertThrows(() => requireLabels(place, terms, chosen), SbxError);
      return `${code}: ${message}; ${hint}`;
    };
    requireLabels(place, granted, { anthropic: "work" });
    requireLabels(place, { providers: [] });
    assertEquals(
      refusal({ anthropic: "play" }),
      'credential.not_found: no key of anthropic has the label "play"; there are "work", "home"',
    );
    assertEquals(
      refusal({ github: "work" }),
      'credential.not_found: no key of github has the label "work"; add it: sbx credentials add github --label work',
    );
    assertEquals(
      refusal({ openai: "work" }),
      "credential.not_granted: the VM's profile does not grant keys of openai; it grants anthropic, github, aws, postgres",
    );
    const corp = { ...CORP, provider_labels: { anthropic: ["work"] } };
    assertEquals(
      refusal({ anthropic: "home" }, grantOf({ profile: PROFILE, corp })),
      'credential.not_granted: the VM may not use the key "home" of anthropic; ' +
        '[credentials.labels] of its profile, or corp, leaves "work"',
    );
    await store.revoke(work);
    assert(refusal({ anthropic: "work" }).startsWith("credential.not_found"));
  }),
);

Deno.test("a profile's labels are of providers that exist, and lists of lines", () => {
  const head = 'id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n[credentials.labels]\n';
  const parse = (labels: string) =>
    parseProfile(parseToml(`${head}${labels}\n`, "profile.toml"), { id: "p", source: "user" });
  assertEquals(parse('anthropic = ["work"]').credentials.labels, { anthropic: ["work"] });
  for (
    const bad of ['anthropic = "work"', "anthropic = []", 'antropic = ["work"]', 'anthropic = ["a\\nb"]']
  ) {
    assertThrows(() => parse(bad), SbxError);
  }
});

/** The CLI's check of an agent's key, over the service's own routes. */
async function keyOf(place: World["place"], agent: string, chosen?: Record<string, string>, labels = {}) {
  const app = new Hono();
  const secrets = new SecretPrograms(place, { alive: () => [] });
  const granted = grantOf({ profile: PROFILE, corp: CORP }, { anthropic: "work" });
  routeCredentials(app, place, {
    secrets,
    runningVms: () => Promise.resolve([{ name: "web", granted }]),
  });
  const client = {
    json: async (_: string, path: string) => await (await app.request(path)).json(),
  } as unknown as Client;
  const profile = await loadProfile({ profilesDir: join(place.dir, "none") }, agent) as
    & Profile
    & { agent: Agent };
  const key = await requireKey(
    client,
    { ...profile, credentials: { ...profile.credentials, labels } },
    chosen,
  );
  return key?.ref;
}

Deno.test(
  "an agent's key is the one of the label, or a named refusal",
  withKeys(KEYS, async ({ place, refs: [work, home, last] }) => {
    assertEquals(await keyOf(place, "claude"), last);
    assertEquals(await keyOf(place, "claude", { anthropic: "work" }), work);
    assertEquals(await keyOf(place, "claude", undefined, { anthropic: ["home"] }), home);
    const error = await assertRejects(() => keyOf(place, "claude", { anthropic: "play" }), SbxError);
    assertEquals([error.code, error.hint], [
      "agent.no_key",
      "its keys have the labels: work, home, (none)",
    ]);
  }),
);

Deno.test(
  "opencode refuses an OAuth token and a login of a subscription, which it would pass over for a third party's model",
  withKeys([{ provider: "anthropic", secret: TOKEN }], async ({ place, store }) => {
    const refusal = async (chosen?: Record<string, string>) => {
      const { code, message, hint } = await assertRejects(() => keyOf(place, "opencode", chosen), SbxError);
      return [code, message, hint];
    };
    assertEquals(await refusal(), [
      "agent.wrong_key",
      "opencode does not read OAuth tokens, and the credential of anthropic for it is one (the one added last)",
      "add an API key: sbx credentials add anthropic",
    ]);
    const [work] = await store.add([{ provider: "anthropic", secret: WORK, label: "work" }]);
    await new Subscriptions(store).save({ login: "claude", label: "plan" }, {
      access: TOKEN + "a",
      refresh: "sk-ant-ort01-" + "bY6-".repeat(12),
      facts: {},
    });
    assertEquals((await refusal())[1]?.includes("does not read logins of subscriptions"), true);
    assertEquals((await refusal())[2], "name another one: --credential work");
    assertEquals(await keyOf(place, "opencode", { anthropic: "work" }), work.ref);
    assertEquals((await refusal({ anthropic: "plan" }))[0], "agent.wrong_key");
  }),
);

Deno.test(
  "Codex and the Gemini CLI take a login of a subscription as their key",
  withKeys([], async ({ place, store }) => {
    for (const login of ["codex", "gemini"]) {
      const logins = new Subscriptions(store);
      const { access } = await logins.save({ login }, {
        access: `access-token-of-${login}`,
        refresh: `refresh-token-of-${login}`,
        facts: {},
      });
      assertEquals(await keyOf(place, login), access.ref);
    }
  }),
);

Deno.test(
  "the list names the running VMs that use a key",
  withKeys(KEYS, async ({ place }) => {
    const app = new Hono();
    const vm = (name: string, chosen?: Record<string, string>) => ({
      name,
      granted: grantOf({ profile: PROFILE, corp: CORP }, chosen),
    });
    routeCredentials(app, place, {
      secrets: new SecretPrograms(place, { alive: () => [] }),
      runningVms: () => Promise.resolve([vm("a", { anthropic: "work" }), vm("b")]),
    });
    const { credentials } = await (await app.request("/credentials/list")).json();
    assertEquals(
      credentials.map(({ label, used_by }: { label?: string; used_by?: string[] }) => [label, used_by]),
      [["work", ["a"]], ["home", undefined], [undefined, ["b"]], [undefined, ["a", "b"]]],
    );
  }),
);

Deno.test(
  "the list names the VMs of each account at a server, and of one account the key added last",
  withKeys([], async ({ place, store }) => {
    const login = (secret: string, user?: string, host = "db.example.com:5432") => ({
      provider: "postgres" as const,
      secret,
      hosts: [host],
      database: user === undefined ? {} : { user },
    });
    for (
      const each of [
        login("former-password-1", "app"),
        login("correct-horse-1", "app"),
        login("correct-horse-2", "reader"),
        login("correct-horse-3"),
        login("correct-horse-4", "app", "other.example.com:5432"),
      ]
    ) await store.add([each]);
    const app = new Hono();
    routeCredentials(app, place, {
      secrets: new SecretPrograms(place, { alive: () => [] }),
      runningVms: () => Promise.resolve([{ name: "a", granted: grantOf({ profile: PROFILE, corp: CORP }) }]),
    });
    const { credentials } = await (await app.request("/credentials/list")).json();
    assertEquals(credentials.map(({ used_by }: { used_by?: string[] }) => used_by), [
      undefined,
      ...Array.from({ length: 4 }, () => ["a"]),
    ]);
  }),
);
