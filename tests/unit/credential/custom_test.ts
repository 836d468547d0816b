/**
 * Providers that people, profiles and corp add, and the hosts to which they narrow others
 * (docs/design/contracts/09-credentials.md §9, "Added providers").
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { CustomProvider, customProvidersOf } from "../../../lib/credential/schema.ts";
import { CredentialBroker, CredentialStore, REASON } from "../../../lib/credential/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { profileLayer } from "../../../lib/home/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { grantOf } from "../../../lib/session/mod.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { addedProviders } from "../../../lib/service/contract/providers.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { withSwitches } from "../../../cmd/sbx/rules/credentials.ts";
import { KEY, to } from "../../helper/credential.ts";

const SECRET = "acme-live-0123456789abcdef";
const ACME = {
  hosts: ["api.acme.example", "*.eu.acme.example"],
  headers: ["x-acme-key", "authorization: bearer"],
  basic: ["password" as const],
  queries: ["acme_key"],
  paths: ["/hooks/{key}/"],
  env: ["ACME_API_KEY"],
};
const PROFILE = `id = "p"
name = "P"
description = ""
revision = "1.0.0"
[credentials]
providers = ["acme", "github"]
[credentials.hosts]
github = ["api.github.com"]
[credentials.custom.acme]
hosts = ["api.acme.example", "*.eu.acme.example"]
headers = ["x-acme-key", "authorization: bearer"]
basic = ["password"]
queries = ["acme_key"]
paths = ["/hooks/{key}/"]
env = ["ACME_API_KEY"]
`;

/** A store, and brokers of VMs with a profile's grants. */
async function withProfile(
  text: string,
  run: (parts: {
    store: CredentialStore;
    open(vm?: string): Promise<CredentialBroker>;
    home: { profilesDir: string };
  }) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  const brokers: CredentialBroker[] = [];
  try {
    await Deno.mkdir(join(dir, "p"));
    await Deno.writeTextFile(join(dir, "p", "profile.toml"), text);
    const home = { profilesDir: dir };
    const store = new CredentialStore(join(dir, "credentials", "store.json"));
    const open = async (vm = "vm-a") => {
      const profile = await profileLayer(await loadProfile(home, "p"), { state: { status: "absent" } });
      const terms = grantOf({ profile, corp: { rules: [], packs: [], mcp: {} } });
      const broker = await CredentialBroker.open({ store, vm, ...terms });
      brokers.push(broker);
      return broker;
    };
    await run({ store, open, home });
  } finally {
    for (const broker of brokers) await broker.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const reasonOf = (act: () => unknown) => assertThrows(act, CredentialDenied).substitutions[0].reason;

Deno.test("a key of an added provider goes to its hosts and places, and nowhere else", () =>
  withProfile(PROFILE, async ({ store, open, home }) => {
    const added = await addedProviders(home);
    assertEquals(added, [{ id: "acme", places: ACME, from: "profile p" }]);
    const [{ ref }] = await store.add([newCredential({ provider: "acme", secret: SECRET }, added)]);
    const broker = await open();
    const sent = (host: string, name: string, value: string) =>
      broker.inject(to(host), [[name, value]]).headers[0][1];
    assertEquals(sent("api.acme.example", "x-acme-key", ref), SECRET);
    assertEquals(sent("a1.eu.acme.example", "authorization", `Bearer ${ref}`), `Bearer ${SECRET}`);
    assertEquals(sent("api.acme.example", ":path", `/v1?acme_key=${ref}`), `/v1?acme_key=${SECRET}`);
    assertEquals(sent("api.acme.example", ":path", `/hooks/${ref}/run`), `/hooks/${SECRET}/run`);
    for (
      const host of ["acme.example", "api.acme.example.evil.example", "eu.acme.example", "api.github.com"]
    ) {
      assertEquals(reasonOf(() => sent(host, "x-acme-key", ref)), REASON.wrongHost, host);
    }
    for (
      const [name, value] of [["x-api-key", ref], [":path", `/v1?key=${ref}`], [
        "authorization",
        `token ${ref}`,
      ]]
    ) {
      assertEquals(reasonOf(() => sent("api.acme.example", name, value)), REASON.wrongPlace, name);
    }
    assertEquals(
      reasonOf(() => broker.inject(to("api.acme.example", "http"), [["x-acme-key", ref]])),
      REASON.notHttps,
    );
    assertEquals(broker.guestEnv(), { ACME_API_KEY: ref });
  }));

Deno.test("another profile's word about a provider moves no key that is stored", () =>
  withProfile(
    PROFILE.replace('hosts = ["api.acme.example"', 'hosts = ["evil.example", "api.acme.example"'),
    async ({ store, open }) => {
      const [{ ref }] = await store.add([{ provider: "acme", secret: SECRET, custom: ACME }]);
      const broker = await open();
      assertEquals(
        reasonOf(() => broker.inject(to("evil.example"), [["x-acme-key", ref]])),
        REASON.wrongHost,
      );
      assertEquals(broker.inject(to("api.acme.example"), [["x-acme-key", ref]]).headers, [[
        "x-acme-key",
        SECRET,
      ]]);
    },
  ));

Deno.test("an entry of the store whose hosts were changed opens no more", () =>
  withProfile(PROFILE, async ({ store, open }) => {
    const [{ ref }] = await store.add([{ provider: "acme", secret: SECRET, custom: ACME }]);
    const text = await Deno.readTextFile(store.path);
    await Deno.writeTextFile(store.path, text.replace("api.acme.example", "api.evil.example"));
    const broker = await open();
    assertEquals(broker.broken?.code, "credential.store_corrupt");
    assertEquals(
      reasonOf(() => broker.inject(to("api.evil.example"), [["x-acme-key", ref]])),
      REASON.unreadable,
    );
  }));

Deno.test("a key of an added provider stays with its own hosts when its name becomes a built-in provider's", () =>
  withProfile(PROFILE.replace('["acme", "github"]', '["mistral"]'), async ({ store, open }) => {
    // As an earlier sbx wrote it, which knew no provider of this name.
    const [{ ref }] = await store.add([{ provider: "mistral", secret: SECRET, custom: ACME }]);
    const [{ ref: other }] = await store.add([
      newCredential({ provider: "mistral", secret: "a-key-of-mistral" }),
    ]);
    const broker = await open();
    assertEquals(broker.broken, undefined);
    const sent = (host: string, header: string, value: string) =>
      broker.inject(to(host), [[header, value]]).headers[0][1];
    assertEquals(sent("api.acme.example", "x-acme-key", ref), SECRET);
    assertEquals(
      reasonOf(() => sent("api.mistral.ai", "authorization", `Bearer ${ref}`)),
      REASON.wrongHost,
    );
    assertEquals(sent("api.mistral.ai", "authorization", `Bearer ${other}`), "Bearer a-key-of-mistral");
    assertEquals(reasonOf(() => sent("api.acme.example", "x-acme-key", other)), REASON.wrongHost);
    // A contract of that time says nothing about the provider that is built in now.
    broker.grant({ providers: ["mistral"], custom: { mistral: ACME } });
    assertEquals(reasonOf(() => sent("api.acme.example", "x-acme-key", other)), REASON.wrongHost);
    assertEquals(sent("api.mistral.ai", "authorization", `Bearer ${other}`), "Bearer a-key-of-mistral");
    // A person adds it again, as a key of the built-in one.
    await store.add([newCredential({ provider: "mistral", secret: SECRET })]);
    await broker.refresh();
    assertEquals(sent("api.mistral.ai", "authorization", `Bearer ${ref}`), `Bearer ${SECRET}`);
  }));

Deno.test("a guest's own key of an added provider is taken, for its VM alone", () =>
  withProfile(PROFILE, async ({ store, open }) => {
    const broker = await open();
    const [[, ref]] = broker.capture("api.acme.example", [["x-acme-key", SECRET]]).headers;
    assert(ref.startsWith("credential:blake3:"));
    assertEquals(broker.inject(to("api.acme.example"), [["x-acme-key", ref]]).headers, [[
      "x-acme-key",
      SECRET,
    ]]);
    await broker.flush();
    assertEquals(store.list().map(({ provider, custom, source }) => [provider, custom, source]), [
      ["acme", ACME, "captured"],
    ]);
    const other = await open("vm-b");
    assertEquals(
      reasonOf(() => other.inject(to("api.acme.example"), [["x-acme-key", ref]])),
      REASON.notGranted,
    );
  }));

Deno.test("a provider may have the name of what every object has", () =>
  withProfile(
    PROFILE.replaceAll("acme]", "constructor]").replace('"acme"', '"constructor"'),
    async (parts) => {
      const { store, open, home } = parts;
      const credential = newCredential(
        { provider: "constructor", secret: SECRET },
        await addedProviders(home),
      );
      const [{ ref }] = await store.add([credential]);
      const broker = await open();
      assertEquals(broker.inject(to("api.acme.example"), [["x-acme-key", ref]]).headers, [[
        "x-acme-key",
        SECRET,
      ]]);
    },
  ));

Deno.test("hosts that a profile does not leave get no key from the host itself either", () =>
  withProfile(PROFILE, async ({ store, open }) => {
    const [{ ref }] = await store.add([{ provider: "github", secret: KEY.github }]);
    const broker = await open();
    const use = (host: string) => broker.use(ref, new URL(`https://${host}/mcp`));
    assertEquals((await use("api.github.com")).secret, KEY.github);
    const error = await assertRejects(() => use("uploads.github.com"), CredentialDenied);
    assertEquals(error.substitutions[0].reason, REASON.leftOut);
  }));

Deno.test("a profile leaves some hosts to a provider's keys", () =>
  withProfile(PROFILE, async ({ store, open }) => {
    const [{ ref }] = await store.add([{ provider: "github", secret: KEY.github }]);
    const broker = await open();
    assertEquals(
      broker.inject(to("api.github.com"), [["authorization", `token ${ref}`]]).headers,
      [["authorization", `token ${KEY.github}`]],
    );
    assertEquals(
      reasonOf(() => broker.inject(to("uploads.github.com"), [["authorization", `token ${ref}`]])),
      REASON.leftOut,
    );
  }));

Deno.test("errors of --custom name the switches, and repeat no value", () => {
  const error = new SbxError(
    "request.invalid",
    "custom.hosts[1]: bad; custom.headers[0]: bad; custom.env: bad",
  );
  const { code, message } = withSwitches(error, { hosts: ["a", "b"], headers: ["c"] }) as SbxError;
  assertEquals([code, message], ["request.invalid", "--host (number 2): bad; --header: bad; --env: bad"]);
});

Deno.test("corp narrows what a profile narrows, and its own providers go with it", () => {
  const profile = {
    ...{ rules: [], packs: [], mcp: {}, providers: ["corp-art", "acme", "github"], custom: { acme: ACME } },
    provider_hosts: { github: ["api.github.com", "github.com"] },
  };
  const art = { hosts: ["art.corp.example"], headers: ["x-jfrog-art-api"] };
  const corp = { rules: [], packs: [], mcp: {}, custom: { "corp-art": art } };
  assertEquals(grantOf({ profile, corp }).providers, ["corp-art", "acme", "github"]);
  assertEquals(grantOf({ profile, corp }).custom, { "corp-art": art, acme: ACME });
  assertEquals(grantOf({ profile, corp: { ...corp, custom: {} } }).providers, ["acme", "github"]);
  assertEquals(grantOf({ profile, corp: { ...corp, providers: ["github"] } }).providers, ["github"]);
  const narrowed = grantOf({ profile, corp: { ...corp, provider_hosts: { github: ["github.com"] } } });
  assertEquals(narrowed.hosts, [{ github: ["github.com"] }, profile.provider_hosts]);
});

Deno.test("a definition that claims what is another's, or frames a request, is refused", () => {
  const problem = (change: Record<string, unknown>) => {
    const { error } = CustomProvider.safeParse({ ...ACME, ...change });
    return error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ") ?? "accepted";
  };
  const refused: [Record<string, unknown>, RegExp][] = [
    [{ hosts: ["api.github.com"] }, /GitHub/],
    [{ hosts: ["*.github.com"] }, /GitHub/],
    [{ hosts: ["*.openai.com"] }, /OpenAI/],
    [{ hosts: ["someone.gitlab.io"] }, /GitLab/],
    [{ hosts: ["*.com"] }, /domain behind/],
    [{ hosts: ["*"] }, /lower-case name/],
    [{ hosts: ["API.acme.example"] }, /lower-case name/],
    [{ hosts: ["10.0.0.1"] }, /lower-case name/],
    [{ hosts: ["a.*.example"] }, /lower-case name/],
    [{ hosts: [] }, /hosts/],
    [{ headers: ["host"] }, /no key travels/],
    [{ headers: ["content-length: bearer"] }, /no key travels/],
    [{ headers: ["X-Key"] }, /lower case/],
    [{ headers: ["x key"] }, /lower case/],
    [{ queries: ["a&b"] }, /parameter/],
    [{ paths: ["/hooks"] }, /\{key\}/],
    [{ env: ["PATH"] }, /no client/],
    [{ env: ["LD_PRELOAD"] }, /no client/],
    [{ token_endpoints: ["api.acme.example/token"] }, /nrecognized/],
    [{ headers: [], basic: [], queries: [], paths: [] }, /needs a place/],
    [{ headers: Array.from({ length: 17 }, (_, at) => `x-${at}`) }, /headers/],
  ];
  for (const [change, expected] of refused) {
    assert(expected.test(problem(change)), `${JSON.stringify(change)}: ${problem(change)}`);
  }
  const ids = (author: "corp" | "profile", id: string) =>
    customProvidersOf(author).safeParse({ [id]: ACME }).success;
  assertEquals(["acme", "corp-art", "github", "ghcr", "Acme", "a"].map((id) => ids("profile", id)), [
    ...[true, false, false, false, false, false],
  ]);
  assertEquals(["acme", "corp-art"].map((id) => ids("corp", id)), [false, true]);
});

Deno.test("a key of an unknown provider, or of one that profiles differ about, is refused", () => {
  const codeOf = (act: () => unknown) => {
    try {
      return act();
    } catch (error) {
      return (error as SbxError).code;
    }
  };
  const request = { provider: "acme", secret: SECRET };
  const a = { id: "acme", places: ACME, from: "profile a" };
  const b = { ...a, places: { ...ACME, hosts: ["b.example"] }, from: "profile b" };
  assertEquals(codeOf(() => newCredential(request, [])), "credential.invalid");
  assertEquals(codeOf(() => newCredential(request, [a, b])), "credential.conflict");
  assertEquals(newCredential({ ...request, custom: ACME }, [a, b]).custom, ACME);
  for (const provider of ["github", "ghcr", "corp-art"]) {
    assertEquals(
      codeOf(() => newCredential({ provider, secret: SECRET, custom: ACME }, [])),
      "credential.invalid",
    );
  }
  assertEquals(codeOf(() => newCredential({ ...request, host: "x.example" }, [a])), "credential.invalid");
});

Deno.test("keys of an added provider are found by their beginnings: captured, kept to their hosts, and redacted", () =>
  withProfile(
    PROFILE.replace(
      'env = ["ACME_API_KEY"]',
      'env = ["ACME_API_KEY"]\nprefixes = ["acme_live_", "sk-acme-"]',
    ),
    async ({ open }) => {
      const broker = await open("vm-a");
      const own = "acme_live_0123456789abcdefABCD";
      const other = "sk-acme-0123456789abcdefABCD";
      // In a header that carries no keys, a path and a body.
      for (const key of [own, other]) {
        const { headers, substitutions } = broker.capture("api.acme.example", [
          [":path", "/v1"],
          ["x-note", `the key is ${key}`],
        ]);
        assert(!JSON.stringify(headers).includes(key), key);
        assertEquals(substitutions.map(({ provider, outcome }) => [provider, outcome]), [[
          "acme",
          "captured",
        ]]);
        assert(!broker.scrub(`log: ${key}`).includes(key));
      }
      // Words are no keys, and built-in providers keep theirs.
      const words = "acme_live_configuration_of_the_server and sk-acme-short";
      assertEquals(broker.scrub(words), words);
      assert(broker.scrub(KEY.openai) !== KEY.openai && broker.scrub(KEY.github) !== KEY.github);
    },
  ));

Deno.test("a profile's longer beginning takes no key from corp's provider", async () => {
  const dir = await Deno.makeTempDir();
  const art = { hosts: ["art.corp.example"], headers: ["x-art"], prefixes: ["art_"] };
  const mine = { hosts: ["mine.example"], headers: ["x-mine"], prefixes: ["art_live_", "mine_"] };
  const profile = { rules: [], packs: [], mcp: {}, providers: ["corp-art", "mine"], custom: { mine } };
  const corp = { rules: [], packs: [], mcp: {}, custom: { "corp-art": art } };
  const store = new CredentialStore(join(dir, "store.json"));
  const broker = await CredentialBroker.open({ store, vm: "vm-a", ...grantOf({ profile, corp }) });
  const ownerOf = (key: string) =>
    broker.capture("mine.example", [["x-note", key]]).substitutions.map(({ provider }) => provider);
  assertEquals(ownerOf("art_live_0123456789abcdefABCD"), ["corp-art"]);
  assertEquals(ownerOf("mine_0123456789abcdefABCD"), ["mine"]);
  await broker.close();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a beginning of keys is no other provider's, and no word", () => {
  const isTaken = (prefix: string) => CustomProvider.safeParse({ ...ACME, prefixes: [prefix] }).success;
  for (const prefix of ["acme_", "sk-acme-", "Acme2-live_v1_"]) assertEquals(isTaken(prefix), true, prefix);
  for (
    const prefix of [
      "",
      "a",
      "acme",
      "sk-",
      "ghp_",
      "ghp_acme_",
      "sk-ant-acme-",
      "acme.*_",
      "acme_\n",
      "-acme-",
    ]
  ) {
    assertEquals(isTaken(prefix), false, prefix);
  }
});
