/** Homes for debug reports: a healthy one, and what can be wrong with one. */
import { currentArch } from "../../lib/base/arch/mod.ts";
import { dirname, join } from "node:path";
import { installedName } from "../../lib/release/asset/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { type Home, home as homeOf } from "../../lib/base/home/mod.ts";
import { caFiles, openCa } from "../../lib/network/ca/mod.ts";
import { CredentialStore, storePath } from "../../lib/credential/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../lib/session/mod.ts";
import { recordStep, setupPath } from "../../lib/release/setup/mod.ts";
import { manifestOf } from "./manifest.ts";
import { recordOf } from "./vm.ts";

/** Runs a test on a healthy home: an image, a log, a finished set-up. */
export async function withHealthyHome(test: (home: Home) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  try {
    await Deno.mkdir(home.runDir, { mode: 0o700 });
    await installImage(home);
    for (const step of ["assets", "vm"] as const) await recordStep(home, step);
    await writeFile(join(home.logsDir, "service.log"), "2026-11-24T10:00:00.000Z info ready\n");
    await test(home);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Installs an image of no content. @param obom text of its OBOM */
export async function installImage(home: Home, obom?: string): Promise<void> {
  const files: Record<string, { hash: string; size: number }> = {};
  for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs", "obom.cdx.json"]) {
    const text = obom !== undefined && name === "obom.cdx.json" ? obom : `bytes of ${name}`;
    files[name] = { hash: blake3(text), size: text.length };
    await writeFile(join(home.assetsDir, installedName(name, blake3(text))), text);
  }
  await writeFile(
    join(home.assetsDir, "manifest.json"),
    JSON.stringify(manifestOf({ [currentArch()]: files })),
  );
}

export async function writeFile(path: string, text: string, mode = 0o600): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, mode);
}

async function bootFile({ assetsDir }: Home, begin: string): Promise<string> {
  for await (const { name } of Deno.readDir(assetsDir)) {
    if (name.startsWith(begin)) return join(assetsDir, name);
  }
  throw new Error(begin);
}

/** Ways to break a home, each with words that a report of it has to say. */
export const BREAKAGES: [what: string, spoil: (home: Home) => Promise<unknown>, says: RegExp][] = [
  [
    "the rootfs is another one",
    async (home) => Deno.writeTextFile(await bootFile(home, "rootfs"), "other"),
    /does not match the manifest/,
  ],
  [
    "the kernel is gone",
    async (home) => Deno.remove(await bootFile(home, "vmlinuz")),
    /vmlinuz .*not installed/,
  ],
  [
    "the OBOM is gone",
    async (home) => Deno.remove(await bootFile(home, "obom")),
    /^profiles: the pinned OBOM \S+ is gone \(install it again: sbx update --assets\)$/,
  ],
  [
    "the manifest is damaged",
    ({ assetsDir }) => writeFile(join(assetsDir, "manifest.json"), "{"),
    /^assets: .*manifest\.json.*JSON/,
  ],
  ["the manifest is gone", ({ assetsDir }) => Deno.remove(join(assetsDir, "manifest.json")), /no VM assets/],
  [
    "settings.toml is damaged",
    ({ dir }) => writeFile(join(dir, "settings.toml"), "[settings"),
    /settings\.toml:1/,
  ],
  [
    "a profile is damaged",
    ({ profilesDir }) => writeFile(join(profilesDir, "mine/profile.toml"), "x = 1"),
    /^profiles: .*mine.profile\.toml/,
  ],
  ["the credential store is damaged", (home) => writeFile(storePath(home), "{}"), /credential store/],
  ["the credential store's key is gone", async (home) => {
    await new CredentialStore(storePath(home)).add([{
      provider: "github",
      secret: `ghp_${"a1".repeat(18)}`,
    }]);
    await Deno.remove(join(dirname(storePath(home)), "store.key"));
  }, /key of the credential store/],
  ["the CA's key is open to others", async (home) => {
    await openCa(home);
    await Deno.chmod(caFiles(home).key, 0o644);
  }, /^CA: .*ca\.key/],
  ["the run folder is open to others", ({ runDir }) => Deno.chmod(runDir, 0o777), /open to others/],
  ["a VM failed", async (home) => {
    const id = crypto.randomUUID();
    const paths = sessionPaths(home, id);
    await Deno.mkdir(paths.dir, { recursive: true });
    await writeRecord(paths, recordOf(id, "worker"));
    await writeState(paths, {
      state: "Defunct",
      boot_stages: [],
      pid: 0,
      last_error: "QEMU ended with signal 9",
    });
  }, /worker.*QEMU ended with signal 9/s],
  [
    "a VM's record is damaged",
    ({ sessionsDir }) => writeFile(join(sessionsDir, crypto.randomUUID(), "vm.json"), "{"),
    /damaged-/,
  ],
  [
    "the set-up's state is damaged",
    (home) => writeFile(setupPath(home), "{"),
    /setup-state\.json: ./,
  ],
  ["a log is no file", async ({ logsDir }) => {
    await Deno.mkdir(join(logsDir, "gateway.log"));
  }, /gateway\.log cannot be read: it is not a file/],
];
