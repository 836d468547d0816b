/**
 * A well-formed corp.toml with invalid content never takes effect, and its problems are reported everywhere.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { corpInfo, CorpStore, validateCorp } from "../../../../lib/config/corp/mod.ts";
import { openTarget } from "../../../../lib/fleet/machine/mod.ts";
import { newKey } from "../../../helper/fleet.ts";
import { makeSigner } from "../../../helper/image_signature.ts";
import { corpInForce, corpLayer } from "../../../../lib/home/mod.ts";
import { requireCorpVersion, watchCorp } from "../../../../lib/service/contract/corp.ts";
import { checkCorp } from "../../../../lib/home/value_check/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../../lib/config/settings/mod.ts";

const GOOD = '[corp.rules.a]\naction = "block"\nmatch = \'http.request.host == "x.example"\'\n';
const set = (id: string, value: unknown) => `[settings."${id}"]\nvalue = ${JSON.stringify(value)}\n`;

interface Home {
  dir: string;
  file: string;
  /** writes files into `dir`; corp.toml is `corp.toml` */
  write(files: Record<string, string>): Promise<void>;
  store: CorpStore;
}

async function inHome(run: (home: Home) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const file = join(dir, "corp.toml");
  try {
    const write = async (files: Record<string, string>) => {
      for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(join(dir, name), text);
    };
    await run({ dir, file, write, store: new CorpStore({ dir }, { managed: file }, checkCorp) });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const PRIVATE = makeSigner().privateKey.export({ type: "pkcs8", format: "pem" }) as string;
const ED25519 = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }) as string;

/** Mistake, files and expected problem; `DIR` stands for the folder. */
const MISTAKES: [string, Record<string, string>, string][] = [
  ...([
    ["that is none", "registry.example.com", "no key", "must be a public key of P-256"],
    ["that is private", "registry.example.com", PRIVATE, "must be a public key of P-256"],
    ["of another kind", "registry.example.com", ED25519, "must be a public key of P-256"],
    ["for images without a registry", "oci", makeSigner().publicKey, "since no registry has its signatures"],
  ] as const).map(([what, scope, key, problem]): [string, Record<string, string>, string] => [
    `a key of a signer ${what}`,
    { "corp.toml": `[corp.limits.image_signatures]\n"${scope}" = [${JSON.stringify(key)}]\n` },
    problem,
  ]),
  // A shorter name would decide in their place, and it may need no signature.
  ...[
    "Registry.example.com",
    "registry.example.com/Team",
    "index.docker.io/library",
    "golang",
    "library/golang",
    "docker.io/library/golang:1.25",
    "https://docker.io",
    "registry.example.com//team",
  ].map((scope): [string, Record<string, string>, string] => [
    `signers for ${scope}, which is no name that an image has`,
    { "corp.toml": `[corp.limits.image_signatures]\n"${scope}" = []\n` },
    "must be a registry, a repository of one",
  ]),
  [
    "a rule with a field that does not exist",
    { "corp.toml": GOOD.replace("host", "hst") },
    'DIR/corp.toml:3: corp rule "a": unknown field http.request.hst',
  ],
  [
    "a rule whose match is not a condition",
    { "corp.toml": GOOD.replace(/match.*/, "match = '1 + 1'") },
    "DIR/corp.toml:3:",
  ],
  [
    "a missing rule file",
    { "corp.toml": '[corp_rule_files]\nenforcement = "none.toml"\n' },
    "DIR/none.toml",
  ],
  [
    "a rule file with a rule that does not compile",
    {
      "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n',
      "rules.toml": GOOD.replace("host", "hst"),
    },
    'DIR/rules.toml:3: corp rule "a": unknown field http.request.hst',
  ],
  [
    "a missing detection file",
    { "corp.toml": '[corp_rule_files]\nsigma = "none.yaml"\n' },
    "DIR/none.yaml",
  ],
  [
    "an invalid detection file",
    { "corp.toml": '[corp_rule_files]\nsigma = "pack.yaml"\n', "pack.yaml": "title: 3\n" },
    "pack.yaml",
  ],
  [
    "a resolver without an address",
    { "corp.toml": set("network.dns_resolvers", ["192.0.2.1", "not-an-ip"]) },
    'DIR/corp.toml:2: network.dns_resolvers: "not-an-ip" is not the address of a DNS resolver',
  ],
  [
    "an override without an address",
    { "corp.toml": set("network.upstream_overrides", ["x"]) },
    'DIR/corp.toml:2: network.upstream_overrides: "x" does not have the form name=ip:port',
  ],
  [
    "a missing CA file",
    { "corp.toml": set("network.extra_ca_file", "/nowhere/ca.pem") },
    "DIR/corp.toml:2: network.extra_ca_file: there is no file /nowhere/ca.pem",
  ],
  [
    "a missing price file",
    { "corp.toml": set("network.model_price_file", "/nowhere/prices.json") },
    "DIR/corp.toml:2: network.model_price_file: there is no price table at /nowhere/prices.json",
  ],
  [
    "a text in place of false",
    { "corp.toml": set("network.mcp_logins", "false") },
    "DIR/corp.toml:2: network.mcp_logins: must be true or false",
  ],
  [
    "a number out of range",
    { "corp.toml": set("vm.resources.cpu_count", 4096) },
    "DIR/corp.toml:2: vm.resources.cpu_count: must be between",
  ],
  [
    "a fraction of a whole number",
    { "corp.toml": set("vm.resources.cpu_count", 1.5) },
    "DIR/corp.toml:2: vm.resources.cpu_count: must be an integer",
  ],
  [
    "a text in place of a list",
    { "corp.toml": set("network.dns_resolvers", "192.0.2.1") },
    "DIR/corp.toml:2: network.dns_resolvers: must be a list of text values",
  ],
  [
    "a value that is no choice",
    { "corp.toml": set("ledger.on_full", "explode") },
    "DIR/corp.toml:2: ledger.on_full: must be one of",
  ],
  [
    "a setting that does not exist",
    { "corp.toml": set("network.mcp_login", false) },
    'DIR/corp.toml:1: network.mcp_login: unknown setting; did you mean "network.mcp_logins"?',
  ],
  [
    "a setting that does not exist, hidden",
    { "corp.toml": '[settings."network.mcp_login"]\nhidden = true\n' },
    "DIR/corp.toml:1: network.mcp_login: unknown setting",
  ],
  [
    "a group in place of a setting",
    { "corp.toml": '[settings."telemetry"]\nenabled = false\n' },
    "DIR/corp.toml:1: telemetry: unknown setting",
  ],
  [
    "a refresh policy that is no interval",
    { "corp.toml": 'refresh_policy = "of"\n' },
    'DIR/corp.toml:1: refresh_policy: must be "off", or',
  ],
  [
    "a fleet's bodies of no family",
    { "corp.toml": '[[fleet.bodies]]\nfamily = "all"\n' },
    "DIR/corp.toml:2:",
  ],
  ["a budget in text", { "corp.toml": '[budget]\nusd = "5"\n' }, "DIR/corp.toml:2: budget.usd:"],
  ["a limit of no minutes", { "corp.toml": "[corp.limits]\nvm_minutes = 0\n" }, "DIR/corp.toml:2:"],
  [
    "a provider that does not exist",
    { "corp.toml": '[corp.limits]\nproviders = ["antropic"]\n' },
    "DIR/corp.toml:2:",
  ],
  ["an MCP server that is half off", { "corp.toml": '[mcp.github]\nenabled = "false"\n' }, "DIR/corp.toml:"],
];

for (const [what, files, problem] of MISTAKES) {
  Deno.test(`corp: ${what} keeps the file from taking effect`, () =>
    inHome(async ({ dir, file, write, store }) => {
      await write(files);
      const expected = problem.replaceAll("DIR", dir);
      const validation = await validateCorp(file, checkCorp);
      assertEquals(validation.ok, false);
      assertStringIncludes(validation.problems.join("\n"), expected);

      // No good version is known: everything is locked, and no VM gets rules.
      const settings = await SettingsStore.open({
        home: { dir },
        corp: store,
        definitions: await loadDefinitions({ get: () => undefined }),
      });
      assertEquals([store.state.status, settings.resolved.leaves.every((leaf) => leaf.corp_locked)], [
        "closed",
        true,
      ]);
      const info = corpInfo(store);
      assertStringIncludes(info.error!, expected);
      assertStringIncludes(info.summary, "IS BROKEN");
      assertEquals((await assertRejects(() => corpLayer(store), SbxError)).code, "corp.closed");

      // After a good version, that one stays in force.
      await write({ "corp.toml": GOOD + set("app.auto_update", true) });
      assertEquals((await store.load()).status, "ok");
      await write(files);
      await settings.reload();
      assertEquals(store.state.status, "last_good");
      assertEquals((await corpLayer(store)).rules.map(({ id }) => id), ["a"]);
      assertEquals(settings.resolved.byId.get("app.auto_update")?.corp_locked, true);
      assertStringIncludes(corpInfo(store).error!, expected);

      // A service that starts now has the same in force.
      const restarted = new CorpStore({ dir }, { managed: file }, checkCorp);
      assertEquals((await restarted.load()).status, "last_good");
      assertEquals((await corpLayer(restarted)).rules.map(({ id }) => id), ["a"]);
    }));
}

Deno.test("corp: a last good copy with an invalid value is not good", () =>
  inHome(async ({ dir, file, write, store }) => {
    await write({
      "corp.toml": "[",
      "corp.last-good.toml": set("network.mcp_logins", "false"),
      "corp.last-good.path": file,
    });
    const settings = await SettingsStore.open({
      home: { dir },
      corp: store,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    assertEquals(store.state.status, "closed");
    assert(settings.resolved.leaves.every((leaf) => leaf.corp_locked));
  }));

Deno.test("corp: logins that corp switches off are off, whether by value or by enabled", () =>
  inHome(async ({ write, store }) => {
    const logins = async (entry: string) => {
      await write({ "corp.toml": `[settings."network.mcp_logins"]\n${entry}\n` });
      assertEquals((await store.load()).status, "ok");
      return (await corpLayer(store)).logins;
    };
    assertEquals(
      [await logins("value = false"), await logins("enabled = false"), await logins("value = true")],
      [false, false, undefined],
    );
  }));

Deno.test("corp: a retired setting locks nothing and leaves its file valid", () =>
  inHome(async ({ file, write }) => {
    await write({ "corp.toml": set("telemetry.api_key", "x") });
    const { ok, warnings } = await validateCorp(file, checkCorp);
    assertEquals([ok, warnings.length], [true, 1]);
  }));

Deno.test("corp: a setting of a later sbx is a warning where the file requires that sbx, and no VM boots", () =>
  inHome(async ({ dir, file, write, store }) => {
    const later = `[corp.require]\nsbx = ">=99.0.0"\n${set("network.mcp_login", false)}`;
    await write({ "corp.toml": later });
    const { ok, warnings } = await validateCorp(file, checkCorp);
    assertEquals([ok, warnings.length], [true, 1]);
    assertEquals((await store.load()).status, "ok");
    assertEquals(assertThrows(() => requireCorpVersion(store), SbxError).code, "corp.version");
    // The sbx that it requires takes it as a mistake; the last good version still requires the later one.
    await write({ "corp.toml": later.replace("99.0.0", "0.0.1") });
    assertEquals((await validateCorp(file, checkCorp)).ok, false);
    assertEquals((await new CorpStore({ dir }, { managed: file }, checkCorp).load()).status, "last_good");
  }));

Deno.test("corp: every active entry is listed with its file and line, and no secret", () =>
  inHome(async ({ dir, file, write, store }) => {
    await write({
      "corp.toml": `refresh_policy = "24h"
[corp_rule_files]
enforcement = "rules.toml"
[settings."app.auto_update"]
value = true
hidden = true
[mcp.github]
enabled = false
[corp.rules.own]
action = "block"
match = 'http.request.host == "y.example"'
[corp.limits]
profiles = ["code"]
[corp.records]
hold = ["user:ann"]
[corp]
known_hosts = ["git.example"]
[[sinks]]
id = "siem"
form = "file"
url = "file:///var/log/sbx.jsonl"
`,
      "rules.toml": GOOD,
    });
    const settings = await SettingsStore.open({
      home: { dir },
      corp: store,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    const { in_force, rule_count, since } = await corpInForce(store, settings);
    const has = in_force.map(({ kind, id, text, place }) =>
      `${kind} ${id} ${text} ${place.slice(dir.length + 1)}`
    );
    assertEquals(has, [
      "setting app.auto_update = true, hidden corp.toml:4",
      "mcp github disabled corp.toml:7",
      'limit profiles ["code"] corp.toml:13',
      'record hold ["user:ann"] corp.toml:15',
      "file enforcement rules.toml corp.toml:3",
      "sink siem file file:///var/log/sbx.jsonl corp.toml:18",
      "refresh_policy  24h corp.toml:1",
      'known_hosts  ["git.example"] corp.toml:17',
      "rule own block corp.toml:9",
      "rule a block rules.toml:1",
    ]);
    assertEquals(rule_count, 2);
    assert(Math.abs(Date.parse(since!) - Date.now()) < 60_000);

    // A service that starts again keeps the time; another text has a new one.
    const day = new Date("2026-01-01T00:00:00Z");
    await Deno.utime(join(dir, "corp.last-good.toml"), day, day);
    const restarted = new CorpStore({ dir }, { managed: file }, checkCorp);
    await restarted.load();
    assertEquals(restarted.since, day.toISOString());
    await write({ "corp.toml": GOOD });
    await restarted.load();
    assert(restarted.since! > day.toISOString());

    // Rules that cannot be read any more are named.
    await write({ "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n' });
    await restarted.load();
    await Deno.remove(join(dir, "rules.toml"));
    assertStringIncludes((await corpInForce(restarted, settings)).error!, "rules.toml");
  }));

Deno.test("corp: every problem is reported at once, and a valid file passes", () =>
  inHome(async ({ file, write, store }) => {
    await write({
      "corp.toml": GOOD.replace("host", "hst") + set("network.dns_resolvers", ["x"]) +
        set("network.upstream_overrides", ["y"]) + set("app.auto_update", 3),
    });
    assertEquals((await validateCorp(file, checkCorp)).problems.length, 4);
    await write({
      "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n' +
        set("network.dns_resolvers", ["192.0.2.1"]) +
        set("network.upstream_overrides", ["a.example=127.0.0.1:8443"]) + set("network.extra_ca_file", ""),
      "rules.toml": GOOD,
    });
    assertEquals(await validateCorp(file, checkCorp), {
      ok: true,
      path: file,
      problems: [],
      warnings: [],
    });
    assertEquals((await store.load()).status, "ok");
  }));

/** Addresses of docs/guides/fleet.md, each with its scheme. */
const COLLECTORS = [
  "https://fleet.example.com:8443",
  "http://127.0.0.1:8443",
  "file:///mnt/evidence",
  "tls://nats.example.com",
  "nats://127.0.0.1:4222/sbx.fleet",
];
const SOURCES = [
  "[fleet]\nbundles_url = URL\n",
  "[release]\nmanifest_url = URL\n",
  "[release]\nchannels_url = URL\n",
];

Deno.test("corp: each collector of docs/guides/fleet.md is taken and opened, and no other", () =>
  inHome(async ({ file, write, store }) => {
    for (const url of COLLECTORS) {
      await write({ "corp.toml": `[fleet]\nurl = "${url}"\n` });
      assertEquals((await validateCorp(file, checkCorp)).problems, [], url);
      assertEquals((await store.load()).status, "ok", url);
      assert(openTarget(url, await newKey()).name, url);
    }
    for (
      const url of [
        "postgres://db.example",
        "ftp://x",
        "nonsense",
        "tls://u:pw@x",
        "libsql://x",
        "clickhouse://x",
      ]
    ) {
      await write({ "corp.toml": `[fleet]\nurl = "${url}"\n` });
      const [problem] = (await validateCorp(file, checkCorp)).problems;
      assertStringIncludes(problem, "must be an http, https, file, nats or tls URL", url);
    }
  }));

Deno.test("corp: a credential goes to NATS by TLS, or to this machine", () =>
  inHome(async ({ file, write }) => {
    const credential = `credential_ref = "credential:blake3:${"0".repeat(64)}"\n`;
    const problems = async (url: string) => {
      await write({ "corp.toml": `[fleet]\nurl = "${url}"\n${credential}` });
      return (await validateCorp(file, checkCorp)).problems;
    };
    for (const url of ["tls://nats.example.com", "nats://127.0.0.1:4222", "nats://localhost"]) {
      assertEquals(await problems(url), [], url);
    }
    for (const url of ["nats://nats.example.com", "nats://192.0.2.1:4222"]) {
      assertStringIncludes((await problems(url))[0] ?? "", "without TLS; use tls://", url);
    }
  }));

Deno.test("corp: bundles and releases come over http, https and file, not from a collector", () =>
  inHome(async ({ file, write }) => {
    for (const source of SOURCES) {
      for (const url of COLLECTORS) {
        await write({ "corp.toml": source.replace("URL", `"${url}"`) });
        const { problems } = await validateCorp(file, checkCorp);
        if (/^(https?|file):/.test(url)) assertEquals(problems, [], url);
        else assertStringIncludes(problems[0] ?? "", "must be an http, https or file URL", `${source}${url}`);
      }
    }
  }));

Deno.test("corp: a corrected rule file puts its unchanged corp.toml in force again", () =>
  inHome(async ({ write, store }) => {
    await write({
      "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n',
      "rules.toml": GOOD.replace("host", "hst"),
    });
    assertEquals((await store.load()).status, "closed");
    const changed = Promise.withResolvers<void>();
    const late = setTimeout(() => changed.reject(new Error("the change was not noticed")), 10_000);
    using _watch = watchCorp(store, () => {
      changed.resolve();
      return Promise.resolve();
    });
    await write({ "rules.toml": GOOD });
    await changed.promise;
    clearTimeout(late);
    assert(store.state.status === "ok");
  }));
