/**
 * Contract of a session: made from profile, corp and settings, kept beside its VM, changed while that runs.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { CallServer } from "../../../lib/session/ipc/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { corpLayer, Detections, makeContract, profileLayer } from "../../../lib/home/mod.ts";
import { refreshVm } from "../../../lib/service/contract/refresh.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { readContract, writeContract } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";

const PROFILE = 'id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n';

function rule(layer: string, id: string, action = "block", match = "true"): string {
  return `[${layer}.${id}]\naction = "${action}"\nmatch = '${match}'\n`;
}

interface Given {
  dir: string;
  corpPath: string;
  /** writes files below the folder; `profiles/p/profile.toml` is the profile */
  write(files: Record<string, string>): Promise<void>;
  make(services?: string[]): ReturnType<typeof makeContract>;
}

async function inHome(run: (given: Given) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const corpPath = join(dir, "etc/corp.toml");
  const corp = new CorpStore({ dir }, { managed: corpPath });
  const write = async (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      await Deno.mkdir(join(dir, name, ".."), { recursive: true });
      await Deno.writeTextFile(join(dir, name), text);
    }
  };
  const detections = new Detections({ dir });
  const make = async (services?: string[]) => {
    await corp.load();
    // They make their folder: a contract that is refused does not wait for that.
    await detections.overlays();
    const settings = await SettingsStore.open({ home: { dir }, definitions: await loadDefinitions(), corp });
    const profile = await loadProfile({ profilesDir: join(dir, "profiles") }, "p");
    return await makeContract({ settings, corp, detections }, profile, services);
  };
  try {
    await write({ "profiles/p/profile.toml": PROFILE, "etc/keep": "" });
    await run({ dir, corpPath, write, make });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const ids = (rules: readonly { layer: string; id: string }[]) =>
  rules.map(({ layer, id }) => `${layer}:${id}`);

Deno.test("a bare profile without corp: no rules of its own, and the settings' defaults", () =>
  inHome(async ({ make }) => {
    const { profile, corp, network, ledger } = await make();
    assertEquals([profile.rules, corp.rules], [[], []]);
    assertEquals(network, { resolvers: [], overrides: [] });
    assertEquals(ledger.on_full, "pause");
    assertEquals("url" in ledger || "auth_token_file" in ledger, false);
  }));

Deno.test("a VM gets the profile's services of the host, or fewer, and no others", () =>
  inHome(async ({ write, make }) => {
    await write({ "profiles/p/profile.toml": `${PROFILE}[host]\nservices = ["ollama", "api:8080"]\n` });
    const [ollama, api] = [{ name: "ollama", port: 11434 }, { name: "api", port: 8080 }];
    assertEquals((await make()).network.host_services, [ollama, api]);
    assertEquals((await make(["api"])).network.host_services, [api]);
    assertEquals((await make([])).network.host_services, undefined);
    const other = await assertRejects(() => make(["ollama", "vllm"]), SbxError, 'no service "vllm"');
    assertEquals([other.code, other.hint], ["host.no_service", "it names ollama, api"]);
    await write({ "etc/corp.toml": '[settings."network.host_services"]\nvalue = false\n' });
    assertEquals((await make()).network.host_services, undefined);
    await assertRejects(() => make(["api"]), SbxError, "switched off");
  }));

Deno.test("the shared cache is the profile's, of the size of the settings, unless corp switches it off", () =>
  inHome(async ({ write, make }) => {
    assertEquals("cache" in await make(), false);
    const profile = (table: string) => write({ "profiles/p/profile.toml": `${PROFILE}[cache]\n${table}` });
    await profile('npm = ["npm.example"]\npip = true\nuv = true\n');
    const registries = { npm: ["npm.example"], pypi: [] };
    assertEquals((await make()).cache, { scope: "home", registries, max_bytes: 10 * 1024 ** 3 });
    await write({ "settings.toml": '[settings."vm.cache.max_gb"]\nvalue = 1\n' });
    await profile('scope = "profile"\napt = true\n');
    assertEquals((await make()).cache, { scope: "profile-p", registries: { apt: [] }, max_bytes: 1024 ** 3 });
    await profile("npm = false\n");
    assertEquals((await make()).cache, undefined);
    await profile("npm = true\n");
    for (const entry of ["value = false", "enabled = false"]) {
      await write({ "etc/corp.toml": `[settings."vm.cache.enabled"]\n${entry}\n` });
      const { cache, corp } = await make();
      assertEquals([cache, corp.cache], [undefined, false], entry);
    }
  }));

Deno.test("rules come from profile.toml and corp.toml, and from the files that they name, beside them", () =>
  inHome(async ({ dir, write, make }) => {
    await write({
      "profiles/p/profile.toml": PROFILE + '[rule_files]\nenforcement = "more/rules.toml"\n' +
        rule("profiles.rules", "own"),
      "profiles/p/more/rules.toml": rule("profiles.rules", "filed") + rule("default", "last"),
      "etc/corp.toml": '[corp_rule_files]\nenforcement = "corp-rules.toml"\n' + rule("corp.rules", "own"),
      "etc/corp-rules.toml": rule("corp.rules", "filed") + rule("default", "corp-last"),
    });
    const { profile, corp } = await make();
    assertEquals(ids(profile.rules), ["profile:own", "profile:filed", "default:last"]);
    assertEquals(ids(corp.rules), ["corp:own", "corp:filed", "default:corp-last"]);
    const { file, line } = profile.rules[1];
    assertEquals([file, line], [join(dir, "profiles/p/more/rules.toml"), 1]);
  }));

Deno.test("where events are collected is a URL and a file's name: the token itself is in no contract", () =>
  inHome(async ({ dir, write, make }) => {
    await write({
      token: "secret-token",
      "etc/corp.toml":
        `[ledger]\nurl = "https://collect.example"\nauth_token_file = "${join(dir, "token")}"\n` +
        '[settings."ledger.max_size_mb"]\nvalue = 64\n[settings."ledger.on_full"]\nvalue = "block"\n',
    });
    const contract = await make();
    assertEquals(contract.ledger, {
      on_full: "block",
      max_bytes: 64 * 1024 * 1024,
      url: "https://collect.example",
      auth_token_file: join(dir, "token"),
    });
    assertEquals(JSON.stringify(contract).includes("secret-token"), false);
  }));

/** Files that are wrong, the error's code, and what its message names. */
const REFUSED: [string, Record<string, string>, string, string][] = [
  [
    "a profile's rule that does not compile",
    { "profiles/p/profile.toml": PROFILE + rule("profiles.rules", "a", "block", "http.request.hots == 1") },
    "policy.invalid",
    'did you mean "http.request.host"',
  ],
  [
    "a corp rule that does not compile",
    { "etc/corp.toml": rule("corp.rules", "a", "block", "1 + 1") },
    "policy.invalid",
    "corp.toml:",
  ],
  [
    "a profile's rule file that is not there",
    { "profiles/p/profile.toml": PROFILE + '[rule_files]\nenforcement = "none.toml"\n' },
    "policy.not_found",
    "none.toml",
  ],
  [
    "corp's rule file that is not there",
    { "etc/corp.toml": '[corp_rule_files]\nenforcement = "none.toml"\n' },
    "policy.not_found",
    "etc/none.toml",
  ],
  [
    "a profile's rule file that speaks for corp",
    {
      "profiles/p/profile.toml": PROFILE + '[rule_files]\nenforcement = "rules.toml"\n',
      "profiles/p/rules.toml": rule("corp.rules", "a", "allow"),
    },
    "policy.invalid",
    "must not contain [corp.rules.*] rules",
  ],
  [
    "corp's rule file that speaks for a profile",
    {
      "etc/corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n',
      "etc/rules.toml": rule("profiles.rules", "a", "allow"),
    },
    "policy.invalid",
    "must not contain [profiles.rules.*] rules",
  ],
  ["a corp.toml that was never good", { "etc/corp.toml": "[corp.rules.a\n" }, "corp.closed", "corp.toml"],
];
for (const [what, files, code, named] of REFUSED) {
  Deno.test(`no VM starts with ${what}`, () =>
    inHome(async ({ write, make }) => {
      await write(files);
      const error = await assertRejects(make, SbxError);
      assertEquals(error.code, code);
      assertStringIncludes(error.message, named);
    }));
}

Deno.test("a corp.toml that breaks leaves its last good rules in every contract that is made", () =>
  inHome(async ({ dir, write, corpPath }) => {
    const store = new CorpStore({ dir }, { managed: corpPath });
    await write({ "etc/corp.toml": rule("corp.rules", "stays") });
    await store.load();
    await write({ "etc/corp.toml": "[corp.rules.stays\n" });
    assertEquals((await store.load()).status, "last_good");
    assertEquals(ids((await corpLayer(store)).rules), ["corp:stays"]);
    await Deno.remove(corpPath);
    await store.load();
    assertEquals((await corpLayer(store)).rules, []);
  }));

Deno.test("a contract is read as it was written, by nobody but its user; without one nothing runs", () =>
  inHome(async ({ dir, make }) => {
    const paths = { contract: join(dir, "contract.json") };
    const code = async () => (await assertRejects(() => readContract(paths), SbxError)).code;
    assertEquals(await code(), "session.contract");
    const contract = await make();
    await writeContract(paths, contract);
    assertEquals(await readContract(paths), contract);
    assertEquals((await Deno.stat(paths.contract)).mode! & 0o777, 0o600);
    await Deno.writeTextFile(paths.contract, '{"profile":');
    assertEquals(await code(), "session.contract");
  }));

/** A VM as far as a refresh looks at it, with a process that answers as it is told. */
async function withVm(
  { dir, make }: Given,
  run: (vm: Vm, process: { calls: string[]; broken: boolean }) => Promise<void>,
): Promise<void> {
  const paths = { contract: join(dir, "contract.json"), socket: join(dir, "vm.sock") };
  await writeContract(paths, await make());
  const process = { calls: [] as string[], broken: false };
  const server = new CallServer(Deno.listen({ transport: "unix", path: paths.socket }), (call, { reply }) => {
    process.calls.push(call.t);
    return reply(
      process.broken ? { t: "Failed", code: "policy.invalid", message: "it will not" } : { t: "Ok" },
    );
  });
  try {
    await run({ paths, process: new VmProcess(paths.socket), record: { name: "dev" } } as Vm, process);
  } finally {
    await server.close();
  }
}

Deno.test("a refresh is in force when the process took it; one that fails leaves everything as it was, loudly", () =>
  inHome((given) =>
    withVm(given, async (vm, process) => {
      const inForce = async () => ids((await readContract(vm.paths)).profile.rules);
      const refresh = (...rules: string[]) =>
        refreshVm(vm, async (now) => {
          await given.write({ "profiles/p/profile.toml": PROFILE + rules.join("") });
          return {
            ...now,
            profile: await profileLayer(await profileOf(given), { state: { status: "absent" } }),
          };
        });
      assertEquals([await refresh(rule("profiles.rules", "a")), await inForce()], [true, ["profile:a"]]);
      assertEquals([vm.problem, process.calls], [undefined, ["Refresh"]]);

      assertEquals(await refresh(rule("profiles.rules", "b", "block", "nope == 1")), false);
      assertEquals(
        [await inForce(), process.calls.length],
        [["profile:a"], 1],
        "no process is told of rules that are wrong",
      );
      assertStringIncludes(vm.problem!, 'VM "dev" keeps its previous rules');

      process.broken = true;
      assertEquals(await refresh(rule("profiles.rules", "c")), false);
      assertEquals([await inForce(), process.calls.length], [["profile:a"], 2]);
      assertStringIncludes(vm.problem!, "it will not");

      process.broken = false;
      assertEquals([await refresh(rule("profiles.rules", "d")), await inForce()], [true, ["profile:d"]]);
      assertEquals(vm.problem, undefined);
    })
  ));

Deno.test("of two refreshes at once neither undoes the other", () =>
  inHome((given) =>
    withVm(given, async (vm) => {
      const corp = parseRules(rule("corp.rules", "no"), "f.toml");
      const profile = parseRules(rule("profiles.rules", "yes"), "f.toml");
      await Promise.all([
        refreshVm(vm, (now) => Promise.resolve({ ...now, corp: { ...now.corp, rules: corp } })),
        refreshVm(vm, (now) => Promise.resolve({ ...now, profile: { ...now.profile, rules: profile } })),
      ]);
      const after = await readContract(vm.paths);
      assertEquals([ids(after.corp.rules), ids(after.profile.rules)], [["corp:no"], ["profile:yes"]]);
    })
  ));

function profileOf({ dir }: Given) {
  return loadProfile({ profilesDir: join(dir, "profiles") }, "p");
}
