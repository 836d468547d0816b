/** Boot configuration: precedence of corp, request, profile and settings. */
import { currentArch } from "../../../lib/base/arch/mod.ts";
import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "node:path";
import { installedName } from "../../../lib/release/asset/mod.ts";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { CredentialStore, REF, storePath } from "../../../lib/credential/mod.ts";
import { imageEnv, maxRunning, readRequest, requireUnlocked } from "../../../lib/service/vm/boot.ts";
import { withoutSecrets } from "../../../lib/service/contract/credentials.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { FILES, set, withBoot } from "../../helper/boot.ts";
import { writeContract } from "../../../lib/session/mod.ts";
import { recordOf } from "../../helper/vm.ts";
import { COMMANDS_PATH } from "../../../lib/machine/guest/wire/mod.ts";

Deno.test(
  "a resource: corp's lock, the request, the profile, the settings, each before the next",
  withBoot(async ({ boot, user, profile, corp }) => {
    const cpus = async (asked?: number) => (await boot({ cpus: asked })).record.cpus;
    assertEquals(await cpus(), 2, "the built-in default");
    await user(set("vm.resources.cpu_count", 3));
    assertEquals(await cpus(), 3, "the user's, where the profile does not say");
    await profile("[vm]\ncpu_count = 4");
    assertEquals(await cpus(), 4, "the profile's");
    assertEquals(await cpus(5), 5, "the request's");
    await corp(set("vm.resources.cpu_count", 1));
    assertEquals(await cpus(5), 1, "corp's, at the next boot of a VM that asked for more");
  }),
);

Deno.test(
  "memory and disk are in GiB, a request's memory in MiB",
  withBoot(async ({ boot, profile }) => {
    await profile("[vm]\nram_gb = 3\nscratch_disk_size_gb = 7");
    const { record, scratchGb } = await boot();
    assertEquals([record.ram_mb, scratchGb], [3072, 7]);
    assertEquals((await boot({ ram_mb: 513 })).record.ram_mb, 513);
    assertEquals((await boot({}, { refs: true, diskGb: 40 })).scratchGb, 40, "the request's");
  }),
);

Deno.test(
  "a size beyond what this host has is refused, and the error says what it has",
  withBoot(async ({ boot, user }) => {
    const cpus = await assertRejects(() => boot({ cpus: 10_000 }), SbxError);
    assertStringIncludes(cpus.message, `this host has ${navigator.hardwareConcurrency} processors`);
    await user(set("vm.resources.ram_gb", 256));
    const isSmall = Deno.systemMemoryInfo().total < 256 * 1024 ** 3;
    if (isSmall) assertEquals((await assertRejects(() => boot(), SbxError)).code, "vm.too_large");
    assertEquals(
      (await boot({ cpus: 8, ram_mb: 16384 })).record.cpus,
      8,
      "slow on a small host, and allowed",
    );
    assertEquals([cpus.code, statusOf(cpus.code)], ["vm.too_large", 400]);
  }),
);

Deno.test(
  "the rules of a project file hold on though the request of a VM is damaged",
  withBoot(async ({ boot }) => {
    const project = [{ id: "a", action: "block" as const, match: 'http.request.host == "a.example"' }];
    const { contract, record } = await boot({ project });
    const dir = await Deno.makeTempDir();
    try {
      const paths = { dir, contract: join(dir, "contract.json") };
      await writeContract(paths, contract);
      await Deno.writeTextFile(join(dir, "asked.json"), "{");
      const asked = await readRequest(paths, { ...recordOf("id", "vm"), ...record });
      assertEquals(asked.project, project);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }),
);

Deno.test(
  "a request for something else than what corp locks is refused; the same, or nothing, is not",
  withBoot(async ({ boot, corp, settings }) => {
    await corp(
      ["ram_gb", "cpu_count", "scratch_disk_size_gb"].map((key, i) =>
        set(`vm.resources.${key}`, [2, 1, 8][i])
      ).join(""),
    );
    await boot();
    for (const asked of [{ cpus: 2 }, { ram_mb: 1024 }, { cpus: 1, ram_mb: 2049 }, { disk_gb: 7 }]) {
      const { code } = assertThrows(() => requireUnlocked(settings, asked), SbxError);
      assertEquals([code, statusOf(code)], ["settings.corp_locked", 423]);
    }
    requireUnlocked(settings, { cpus: 1, ram_mb: 2048 });
    requireUnlocked(settings, {});
  }),
);

Deno.test(
  "variables: the settings', the request's over them, and corp's over both; files are base64 and 0600",
  withBoot(async ({ boot, corp, user, home }) => {
    const { bashrc, name } = {
      bashrc: "vm.environment.shell.bashrc",
      name: "repository.git.identity.author_name",
    };
    await user(
      set(name, "Ada") + `[settings."${bashrc}"]\nvalue = { path = "/root/.bashrc", content = "ä\\n" }\n`,
    );
    const asked = { env: { GIT_AUTHOR_NAME: "asked", MINE: "yes" } };
    const { record: { env, files } } = await boot(asked);
    assertEquals([env.GIT_AUTHOR_NAME, env.GIT_COMMITTER_NAME, env.MINE], ["asked", "Ada", "yes"]);
    assertEquals(files, [{
      path: "/root/.bashrc",
      content: new TextEncoder().encode("ä\n").toBase64(),
      mode: 0o600,
    }, {
      path: "/etc/sbx/ca.pem",
      content: (await Deno.readFile(join(home.dir, "ca/ca.crt"))).toBase64(),
      mode: 0o644,
    }]);
    assertEquals(env.NODE_EXTRA_CA_CERTS, "/etc/sbx/ca.pem");
    await corp(set(name, "Corp"));
    assertEquals((await boot(asked)).record.env.GIT_AUTHOR_NAME, "Corp");
    await corp(set(name, ""));
    assertEquals("GIT_AUTHOR_NAME" in (await boot(asked)).record.env, false, "corp locks it away");
  }),
);

Deno.test(
  "a corp.toml that was never good: nothing boots, for its rules are not known",
  withBoot(async ({ boot, corp }) => {
    await corp("x");
    const error = await assertRejects(() => boot(), SbxError);
    assertEquals([error.code, statusOf(error.code)], ["corp.closed", 423]);
  }),
);

Deno.test(
  "variables that no guest is given, and too many of them, are refused before anything exists",
  withBoot(async ({ boot }) => {
    const many = Object.fromEntries(Array.from({ length: 126 }, (_, i) => [`V${i}`, "x"]));
    for (const env of [{ LD_PRELOAD: "x" }, many]) {
      const { code } = await assertRejects(() => boot({ env }), SbxError);
      assertEquals([code, statusOf(code)], ["boot.invalid", 400]);
    }
  }),
);

Deno.test(
  "the profile's own assets, by name and hash; a missing one and one for another architecture are named",
  withBoot(async ({ boot, home, profile }) => {
    const { record, assets } = await boot();
    const path = (part: keyof typeof FILES) => join(home.assetsDir, installedName(FILES[part], blake3(part)));
    assertEquals(record.assets, {
      version: "p 1.0.0",
      arch: currentArch(),
      kernel: path("kernel"),
      initrd: path("initrd"),
      rootfs: path("rootfs"),
      hashes: Object.fromEntries(Object.entries(FILES).map(([part, name]) => [name, blake3(part)])),
    });
    assertEquals([assets.rootfs.hash, assets.rootfs.size], [blake3("rootfs"), 6]);
    await profile("", { revision: "2.0.0" });
    assertEquals((await boot()).record.profile_revision, "2.0.0");
    await Deno.remove(path("initrd"));
    const missing = await assertRejects(
      () => boot(),
      SbxError,
      'initrd.img, a boot file of profile "p", is missing',
    );
    assertEquals(statusOf(missing.code), 412);
    const text = await Deno.readTextFile(join(home.profilesDir, "p", "profile.toml"));
    const other = currentArch() === "arm64" ? "x86_64" : "arm64";
    await Deno.writeTextFile(
      join(home.profilesDir, "p", "profile.toml"),
      text.replaceAll(`arch.${currentArch()}`, `arch.${other}`),
    );
    await assertRejects(() => boot(), SbxError, `no assets for ${currentArch()}`);
  }),
);

Deno.test(
  "a profile for a newer sbx, and none, are refused",
  withBoot(async ({ boot, bootOf, profile }) => {
    await profile('min_sbx_version = "999.0.0"');
    const { code } = await assertRejects(() => boot(), SbxError);
    assertEquals([code, statusOf(code)], ["profile.incompatible", 409]);
    const none = await assertRejects(
      () => bootOf("none"),
      SbxError,
    );
    assertEquals(none.code, "profile.not_found");
  }),
);

Deno.test(
  "how many may run is a setting, and ten without it",
  withBoot(async ({ home, settings, user }) => {
    assertEquals(maxRunning(settings), 10);
    await user(set("vm.resources.max_concurrent_vms", 3));
    await settings.reload();
    assertEquals(maxRunning(settings), 3);
    const path = join(home.dir, "defaults.toml");
    await Deno.writeTextFile(path, '[settings.x]\nname = "X"\ntype = "bool"\ndefault = true\n');
    const definitions = await loadDefinitions({ get: () => path });
    const other = await SettingsStore.open({
      home,
      corp: new CorpStore(home, { managed: join(home.dir, "none") }),
      definitions,
    });
    assertEquals(maxRunning(other), 10);
  }),
);

Deno.test(
  "a guest gets refs: of what was added for the profile's providers, and in place of secrets that it was to have",
  withBoot(async ({ boot, home, profile }) => {
    const secret = `sk-ant-api03-${"boot-test-".repeat(4)}`;
    const brought = `ghp_${"a1B2".repeat(9)}`;
    const store = new CredentialStore(storePath(home));
    const [{ ref }] = await store.add([{ provider: "anthropic", secret, label: "" }]);
    await profile('[credentials]\nproviders = ["anthropic"]');
    assertEquals((await boot()).record.env.ANTHROPIC_API_KEY, ref);
    assertEquals((await boot({}, { refs: false })).record.env.ANTHROPIC_API_KEY, undefined);
    const env = { GITHUB_TOKEN: brought, HEADER: `token ${brought}`, PLAIN: "nothing secret in this one" };
    const clean = await withoutSecrets(home, crypto.randomUUID(), env);
    assertEquals([clean.PLAIN, REF.test(clean.GITHUB_TOKEN)], [env.PLAIN, true]);
    assertEquals(JSON.stringify(clean).includes(brought), false);
    assertEquals(store.list().map(({ provider }) => provider).sort(), ["anthropic", "github"]);
  }),
);

Deno.test("an image's variables that no guest may have are left out, and sbx's commands come first", () => {
  const env = { LD_PRELOAD: "/x.so", ENV: "production", GREETING: "hello", PATH: "/bin" };
  assertEquals(imageEnv({ config: { env } }), { GREETING: "hello", PATH: `${COMMANDS_PATH}:/bin` });
  assertEquals(imageEnv({ config: { env: {} } }), {});
});
