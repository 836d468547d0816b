/** `sbx doctor` of homes that something is wrong with. */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { type Home, home as homeOf } from "../../../../lib/base/home/mod.ts";
import { caFiles, openCa } from "../../../../lib/network/ca/mod.ts";
import { CredentialStore, storePath } from "../../../../lib/credential/mod.ts";
import { versionCommand } from "../../../../lib/machine/vm/mod.ts";
import { GUEST_VERSION } from "../../../../lib/machine/guest/wire/mod.ts";
import { GUEST_VERSION_PROPERTY } from "../../../../lib/config/profile/mod.ts";
import { installImage } from "../../../helper/debug_home.ts";
import { hostReport, THIS_SYSTEM } from "../../../../lib/support/doctor/host/mod.ts";

async function withHome(test: (home: Home) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  try {
    await test(home);
  } finally {
    await Deno.chmod(dir, 0o700);
    await Deno.remove(dir, { recursive: true });
  }
}

async function write(path: string, text: string, mode = 0o600): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, mode);
}

const BROKEN: [what: string, id: string, spoil: (home: Home) => Promise<unknown>, detail: RegExp][] = [
  [
    "settings.toml",
    "settings",
    ({ dir }) => write(join(dir, "settings.toml"), "[settings"),
    /settings\.toml:1/,
  ],
  [
    "a profile",
    "profiles",
    ({ profilesDir }) => write(join(profilesDir, "mine/profile.toml"), "x = 1"),
    /mine/,
  ],
  ["the credential store", "credentials", (home) => write(storePath(home), "{}"), /credential/],
  ["an open credential store", "credentials", async (home) => {
    await new CredentialStore(storePath(home)).add([{
      provider: "github",
      secret: `ghp_${"a1".repeat(18)}`,
    }]);
    await Deno.chmod(storePath(home), 0o644);
  }, /other users/],
  ["the key of the store", "credentials", async (home) => {
    await new CredentialStore(storePath(home)).add([{
      provider: "github",
      secret: `ghp_${"a1".repeat(18)}`,
    }]);
    await Deno.remove(join(home.dir, "credentials/store.key"));
  }, /missing/],
  ["the CA", "ca", async (home) => {
    await openCa(home);
    await Deno.remove(caFiles(home).key);
  }, /./],
  ["an open CA", "ca", async (home) => {
    await openCa(home);
    await Deno.chmod(caFiles(home).key, 0o644);
  }, /./],
  ["the manifest", "assets", ({ assetsDir }) => write(join(assetsDir, "manifest.json"), "{"), /manifest/],
  ["an open run folder", "home", async ({ runDir }) => {
    await Deno.mkdir(runDir);
    await Deno.chmod(runDir, 0o755);
  }, /open to others/],
  ["a run folder that is a file", "home", ({ runDir }) => write(runDir, ""), /not a folder/],
  [
    "the clock",
    "clock",
    ({ dir }) => Deno.utime(dir, new Date(), new Date(Date.now() + 86_400_000)),
    /before/,
  ],
];

for (const [what, id, spoil, detail] of BROKEN) {
  Deno.test(`broken: ${what} is named, with a command`, () =>
    withHome(async (home) => {
      await spoil(home);
      const report = await hostReport(home);
      const check = report.checks.find((each) => each.id === id);
      assertEquals(check?.state, "failed", JSON.stringify(check));
      assert(detail.test(check!.detail), check!.detail);
      assert(check!.remedy, "a remedy");
      assertEquals(report.ok, false);
    }));
}

Deno.test("an image whose guest programs are of another version is named, with a command", () =>
  withHome(async (home) => {
    const lines = async (version?: string) => {
      const properties = version === undefined ? [] : [{ name: GUEST_VERSION_PROPERTY, value: version }];
      await installImage(home, JSON.stringify({ metadata: { component: { properties } } }));
      const { checks } = await hostReport(home);
      return checks.find(({ id }) => id === "profiles")!;
    };
    assertEquals((await lines(GUEST_VERSION)).state, "ok");
    // Of an image that was built before its OBOM had the version nothing is known.
    assertEquals((await lines()).state, "ok");
    const { state, detail, remedy } = await lines("1");
    assertEquals(state, "failed");
    assert(/the image of builder has guest programs of version 1, .* needs \d+/.test(detail), detail);
    assert(/^sbx image build \w+/.test(remedy!), remedy);
  }));

Deno.test("--fix mends permissions, says so, and nothing else", () =>
  withHome(async (home) => {
    await new CredentialStore(storePath(home)).add([{
      provider: "github",
      secret: `ghp_${"a1".repeat(18)}`,
    }]);
    await Deno.chmod(storePath(home), 0o644);
    await Deno.mkdir(home.runDir);
    await Deno.chmod(home.runDir, 0o777);
    const { checks, fixed } = await hostReport(home, { fix: true });
    assertEquals(fixed, [`chmod 700 ${home.runDir}`, `chmod 600 ${storePath(home)}`]);
    const states = Object.fromEntries(checks.map(({ id, state }) => [id, state]));
    assertEquals([states.home, states.credentials, states.assets], ["ok", "ok", "failed"]);
    assertEquals((await Deno.stat(home.runDir)).mode! & 0o777, 0o700);
  }));

Deno.test("looking changes nothing in the home", () =>
  withHome(async (home) => {
    await hostReport(home);
    assertEquals(await Array.fromAsync(Deno.readDir(home.dir), ({ name }) => name), []);
  }));

Deno.test("KVM is tried each time, and the line says how it went", () =>
  withHome(async (home) => {
    const kvm = join(home.dir, "kvm");
    await Deno.writeTextFile(kvm, "");
    let tried = 0;
    const line = async (choice?: Awaited<ReturnType<typeof THIS_SYSTEM.tryKvm>>) => {
      const system = { ...THIS_SYSTEM, kvm, tryKvm: () => (tried++, Promise.resolve(choice)) };
      const { checks } = await hostReport(home, {}, system);
      const check = checks.find(({ id }) => id === "virtualization")!;
      return [check.state, check.detail];
    };
    assertEquals(await line({ accelerator: "kvm", reason: "KVM booted a kernel" }), [
      "ok",
      "tried now: KVM booted a kernel",
    ]);
    assertEquals(await line({ accelerator: "tcg", reason: "QEMU cannot use KVM: busy; VMs are emulated" }), [
      "skipped",
      "tried now: QEMU cannot use KVM: busy; VMs are emulated, which is slow",
    ]);
    assertEquals(tried, 2);
    const [state, detail] = await line();
    assertEquals([state, detail.includes("tried once an image is installed")], ["skipped", true]);
  }));

/**
 * Checks of a host whose programs are at these paths and print this; where `printed` has nothing, they fail.
 */
async function programsOf(
  home: Home,
  found: Record<string, string>,
  printed: Record<string, string>,
): Promise<Record<string, { state: string; detail: string; remedy?: string }>> {
  const system = {
    ...THIS_SYSTEM,
    os: "linux",
    find: (name: string) => found[name],
    output: (program: string, args: readonly string[]) =>
      Promise.resolve(printed[[program, ...args].join(" ")]),
  };
  const { checks } = await hostReport(home, {}, system);
  return Object.fromEntries(checks.map(({ id, ...check }) => [id, check]));
}

const LEGACY = "/usr/lib/qemu/virtiofsd";

Deno.test("QEMU's own virtiofsd is tried as this user runs it: in a user namespace, unless that is root", () =>
  withHome(async (home) => {
    const [program, args] = versionCommand(LEGACY);
    const command = [program, ...args].join(" ");
    assertEquals(versionCommand(LEGACY, 0), [LEGACY, ["--version"]]);
    assertEquals(versionCommand("/usr/libexec/virtiofsd", 1000)[0], "/usr/libexec/virtiofsd");
    const [other, given] = versionCommand(LEGACY, 1000);
    assertEquals([other, given.slice(-3)], ["unshare", ["--", LEGACY, "--version"]]);
    const { virtiofsd } = await programsOf(home, { virtiofsd: LEGACY }, {
      [command]: "virtiofsd version 7.2.22",
    });
    assertEquals([virtiofsd.state, virtiofsd.detail], ["ok", `7.2.22 (${LEGACY})`]);
  }));

Deno.test("a QEMU that can crash a JVM is named, with what to do", () =>
  withHome(async (home) => {
    const path = "/usr/bin/qemu-system-x86_64";
    for (
      const [version, isNamed] of [["7.2.22", true], ["8.0.5", true], ["8.1.0", false], ["10.0.2", false]]
    ) {
      const printed = { [`${path} --version`]: `QEMU emulator version ${version} (Debian 1)` };
      const { qemu } = await programsOf(home, { "qemu-system-x86_64": path }, printed);
      assertEquals([qemu.state, qemu.detail.startsWith(`${version} (${path})`)], ["ok", true]);
      assertEquals(qemu.detail.includes("crash a JVM on several processors: --cpus 1"), isNamed, qemu.detail);
    }
    assertEquals((await programsOf(home, {}, {})).qemu.detail.includes("JVM"), false);
  }));

Deno.test("the remedy for virtiofsd is a package that this Debian has", () =>
  withHome(async (home) => {
    const bookworm = await programsOf(home, {}, {});
    assertEquals(bookworm.virtiofsd.remedy, "sudo apt-get install --reinstall qemu-system-common");
    const trixie = await programsOf(home, {}, { "apt-cache show virtiofsd": "Package: virtiofsd" });
    assertEquals(trixie.virtiofsd.remedy, "sudo apt-get install --reinstall virtiofsd");
    assertEquals(trixie.virtiofsd.detail, "virtiofsd not found");
  }));
