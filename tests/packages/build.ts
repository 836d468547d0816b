/**
 * Packages of two versions, a company's packages, and an apt repository, all made
 * by the commands that users have.
 */
import { assertEquals } from "@std/assert";
import { basename, join } from "node:path";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { testRuntime } from "../../scripts/test_runtime.ts";

/** The version of the source, and one that an upgrade installs. */
export const OLD = "0.1.0", NEW = "0.1.1";
/** Time limit of a build in `ms`. */
const BUILD_MS = 1_800_000;
/** What a build takes from outside, fixed: a checkout with changes builds too. */
const STAMP = { SOURCE_DATE_EPOCH: "1764000000", BUILD_HASH: "0123456789ab" };
const SOURCES = "main.ts cmd lib ffi scripts docs bin deno.json deno.lock README.md CHANGELOG.md";

/** A lock, and the channel of the company's profiles, which its package brings. */
const CORP = `[settings."app.auto_update"]
value = false
reason = "packages are updated by IT"
[release]
channels_url = "file:///usr/share/sbx/releases/channels.json"
install_profiles = true
`;

/** Builds everything into `dir`. @returns paths of sbx's packages by version; the old one is published */
export async function buildPackages(dir: string): Promise<Record<string, string>> {
  await Deno.chmod(dir, 0o755);
  const packages: Record<string, string> = {};
  for (const version of [OLD, NEW]) {
    packages[version] = await buildDeb(fromRoot(""), join(dir, "debs"), version);
  }
  const lint = await sh(`lintian --fail-on error ${packages[OLD]}`);
  console.log(`ok: lintian${lint && `: ${lint.trim().replaceAll("\n", "; ")}`}`);
  await makeKey(dir);
  await publish(dir, packages[OLD]);
  // Hard links: the image has 400 MB.
  await sh(`cp -alL ${fromRoot(".cache/image")} ${join(dir, "image")}`);
  const manifest = await Deno.readFile(join(dir, "image/manifest.json"));
  await Deno.writeTextFile(join(dir, "manifest.blake3"), blake3(manifest));
  await Deno.writeTextFile(join(dir, "corp.toml"), CORP);
  await releaseProfile(dir);
  await corpPackage(dir, "corp.deb", "image", "1.0");
  await corpPackage(dir, "corp-unreachable.deb", "none", "1.1");
  await release(dir, packages[NEW]);
  return packages;
}

/** Builds a package as `make deb` does. */
async function buildDeb(root: string, out: string, version: string, umask = "022"): Promise<string> {
  const runtime = await testRuntime();
  const script =
    `umask ${umask}; exec "$0" run -A --quiet --cached-only scripts/deb.ts --out "$1" --version "$2"`;
  const env = { ...runtime, ...STAMP, DENO_DIR: fromRoot(".deno/cache") };
  return (await sh(script, { args: [Deno.execPath(), out, version], cwd: root, env })).trim();
}

/** Builds the package again in another folder, time zone, locale and umask: the bytes must be the same. */
export async function requireEqualBuilds(deb: string, dir: string): Promise<void> {
  const root = join(dir, "another/folder");
  await Deno.mkdir(root, { recursive: true });
  await sh(`cp -a ${SOURCES.split(" ").map((name) => fromRoot(name)).join(" ")} ${root}`);
  await sh(`find ${root} -exec touch -h -d 2001-02-03 {} +`);
  await Deno.symlink(fromRoot(".deno"), join(root, ".deno"));
  const env = { TZ: "Asia/Tokyo", LC_ALL: "C" };
  for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
  const again = await buildDeb(root, join(dir, "out"), OLD, "077");
  for (const name of Object.keys(env)) Deno.env.delete(name);
  const hashes = await sh(`sha256sum ${deb} ${again} ${spdx(deb)} ${spdx(again)} | cut -d ' ' -f 1`);
  const [one, two, sbomOne, sbomTwo] = hashes.trim().split("\n");
  assertEquals([two, sbomTwo], [one, sbomOne]);
  console.log(`ok: two builds of ${basename(deb)} are equal: SHA-256 ${one}, SBOM ${sbomOne}`);
}

function spdx(deb: string): string {
  return deb.replace(/\.deb$/, ".spdx.json");
}

/** Adds a package to the repository. */
export async function publish(dir: string, deb: string): Promise<void> {
  await admin("package", "repository", join(dir, "apt"), deb, "--key", join(dir, "archive.key"));
}

async function corpPackage(dir: string, name: string, folder: string, version: string): Promise<void> {
  const report = await admin(
    ...["package", "corp", "--json", "--out", join(dir, "corp"), "--version", version],
    ...["--corp", join(dir, "corp.toml"), "--manifest-url", `file:///mnt/${folder}/manifest.json`],
    ...["--releases", join(dir, "profiles"), "--release-trust", join(dir, "profiles-workspace/trust.json")],
  );
  await Deno.rename(JSON.parse(report).path, join(dir, name));
}

/** Publishes a profile of the company in `dir/profiles`. */
async function releaseProfile(dir: string): Promise<void> {
  const [workspace, profile] = [join(dir, "profiles-workspace"), join(dir, "corp-tools/profile.toml")];
  await Deno.mkdir(join(dir, "corp-tools"));
  await Deno.writeTextFile(
    profile,
    'id = "corp-tools"\nname = "Tools"\ndescription = "Tools of the company"\nrevision = "1.0.0"\n',
  );
  await admin("release", "init", workspace);
  await admin("release", "add", workspace, "1.0.0", "--profile", profile);
  await admin("release", "sign", workspace);
  await admin("release", "publish", workspace, join(dir, "profiles"));
}

/** Releases a package in a channel, attested and verified, in `dir/release`. */
async function release(dir: string, deb: string): Promise<void> {
  const [workspace, out, unpacked] = ["workspace", "release", "unpacked"].map((name) => join(dir, name));
  await sh(`dpkg-deb -x ${deb} ${unpacked}`);
  const binary = `/usr/bin/sbx=${unpacked}/usr/bin/sbx`;
  const build = ["--source", "git+https://example.com/sbx", "--commit", "0".repeat(40)];
  await admin("release", "init", workspace);
  await admin("release", "add", workspace, NEW, "--package", deb, "--sbom", spdx(deb), "--binary", binary);
  await admin("release", "sign", workspace);
  await admin("release", "attest", workspace, NEW, ...build, "--builder", "https://example.com/ci");
  await admin("release", "publish", workspace, out);
  const trust = join(dir, "release-trust.json");
  await Deno.copyFile(join(workspace, "trust.json"), trust);
  await admin("release", "verify", out, "--trust", trust);
  await Deno.remove(unpacked, { recursive: true });
  console.log("ok: a release of the package is attested and verified");
}

async function makeKey(dir: string): Promise<void> {
  const home = await Deno.makeTempDir();
  const gpg = `gpg --homedir ${home} --batch --quiet --passphrase ''`;
  try {
    await sh(
      `${gpg} --quick-gen-key 'tests <tests@example.com>' ed25519 sign never && ` +
        `umask 077 && ${gpg} --export-secret-keys >${join(dir, "archive.key")}`,
    );
  } finally {
    await sh(`gpgconf --homedir ${home} --kill all`);
    await Deno.remove(home, { recursive: true });
  }
}

async function admin(...args: string[]): Promise<string> {
  return await sh('exec "$0" "$@"', { args: [fromRoot("bin/sbx-admin"), ...args] });
}

/** Runs a shell script and returns its standard output. */
export async function sh(
  script: string,
  { args = [], cwd, env }: { args?: string[]; cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const options = { args: ["-euc", script, ...args], cwd, env };
  const { success, stdout, stderr } = await runChild("bash", options, BUILD_MS);
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`${script}: ${new TextDecoder().decode(stdout)}${new TextDecoder().decode(stderr)}`);
}
