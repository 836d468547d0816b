/**
 * `make deb`: the package of sbx for Debian, with its SBOM beside it.
 *
 *     deno run -A scripts/deb.ts --out DIR [--arch amd64|arm64] [--version SEMVER] [--program FILE --runtime VERSION]
 *       [--others --url URL]
 *
 * --others: an rpm, a tarball with its installer, PKGBUILD and sbx.nix beside it,
 * which get the tarball from URL.
 *
 * Without --program the program is built first. A program of another architecture cannot run here:
 * --runtime says which Deno is in it.
 */
import { parseArgs } from "@std/cli";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  debianVersion,
  nixExpression,
  pkgbuild,
  sbxDeb,
  writeDeb,
  writeRpm,
  writeTarball,
} from "../lib/publish/package/mod.ts";
import { generateSpdx, spdxProblems } from "../lib/release/sbom/mod.ts";
import { readStamp } from "./build_stamp.ts";
import { text } from "./command.ts";
import { adminPage, sbxPage } from "./man.ts";
import { notices } from "./notices.ts";
import { components, isLicense } from "./sbom.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** DEBEMAIL replaces it, as for other packages. */
const MAINTAINER = "sbx maintainers <maintainers@sbx.invalid>";
/** e_machine of ELF, and names of the architecture elsewhere. */
const ARCHES = {
  amd64: { machine: 62, npm: "linux-x64", target: "x86_64-unknown-linux-gnu" },
  arm64: { machine: 183, npm: "linux-arm64", target: "aarch64-unknown-linux-gnu" },
};

const args = parseArgs(Deno.args, {
  string: ["out", "arch", "version", "program", "runtime", "url"],
  boolean: ["others"],
});
const out = args.out ?? "dist";
const native = (await text(["dpkg", "--print-architecture"])).trim();
const arch = (args.arch ?? native) as keyof typeof ARCHES;
if (!Object.hasOwn(ARCHES, arch)) throw new Error(`deb: --arch is amd64 or arm64, not ${arch}`);
const stamp = await readStamp(ROOT, args.version || undefined);
const work = await Deno.makeTempDir();
try {
  const program = args.program ?? await build(join(work, "program"));
  await requireMachine(program);
  const runtime = args.runtime ?? await runtimeOf(program);
  const vsock = await fetchVsock(join(work, "vsock"));
  const sbom = generateSpdx({
    components: await components({
      version: stamp.version,
      program,
      runtime,
      target: ARCHES[arch].npm,
      vsock: vsock.deb,
    }),
    generatorVersion: stamp.version,
    created: stamp.sourceDateEpoch,
  });
  const problems = spdxProblems(sbom, isLicense);
  if (problems.length) throw new Error(`deb: the SBOM is wrong: ${problems.join("; ")}`);
  const read = (name: string) => Deno.readTextFile(join(ROOT, name));
  const deb = sbxDeb({
    version: stamp.version,
    arch,
    maintainer: Deno.env.get("DEBEMAIL") || MAINTAINER,
    program,
    vsock,
    completions: {
      bash: await completions("bash"),
      zsh: await completions("zsh"),
      fish: await completions("fish"),
    },
    manuals: {
      sbx: await sbxPage(stamp.version, stamp.sourceDateEpoch),
      "sbx-admin": await adminPage(stamp.version, stamp.sourceDateEpoch),
    },
    notices: await notices(ARCHES[arch].npm),
    readme: await read("README.md"),
    changelog: await read("CHANGELOG.md"),
    sbom,
    sourceDateEpoch: stamp.sourceDateEpoch,
  });
  const path = await writeDeb(deb, out);
  await Deno.writeTextFile(join(out, `sbx_${debianVersion(stamp.version)}_${arch}.spdx.json`), sbom);
  console.log(path);
  if (args.others) {
    console.log(await writeRpm(deb, out));
    const tarball = await writeTarball(deb, out);
    console.log(tarball.path);
    const published = { url: args.url ?? "https://sbx.invalid/releases", tarballs: [{ arch, tarball }] };
    await Deno.writeTextFile(join(out, "PKGBUILD"), pkgbuild(deb, published));
    await Deno.writeTextFile(join(out, "sbx.nix"), nixExpression(deb, published));
  }
} catch (error) {
  if (!(error instanceof Error)) throw error;
  // A program that failed has said why, at the end of its message: no stack adds to that.
  console.error(error.message.replace(/^.* exited with \d+: (?=build: )/, ""));
  Deno.exitCode = 1;
} finally {
  await Deno.remove(work, { recursive: true });
}

function completions(shell: string): Promise<string> {
  return text([join(ROOT, "bin/sbx"), "completions", shell]);
}

async function build(dir: string): Promise<string> {
  const cross = arch === native ? [] : ["--target", ARCHES[arch].target];
  const version = args.version ? ["--version", args.version] : [];
  await text([
    Deno.execPath(),
    "run",
    "-A",
    "--quiet",
    "--cached-only",
    join(ROOT, "scripts/build.ts"),
    "--out",
    dir,
    ...version,
    ...cross,
  ], ROOT);
  return join(dir, "sbx");
}

async function requireMachine(program: string): Promise<void> {
  using file = await Deno.open(program);
  const head = new Uint8Array(20);
  await file.read(head);
  const machine = new DataView(head.buffer).getUint16(18, true);
  if (new TextDecoder().decode(head.subarray(1, 4)) === "ELF" && machine === ARCHES[arch].machine) return;
  throw new Error(`deb: ${program} is not a program of ${arch}`);
}

async function runtimeOf(program: string): Promise<string> {
  if (arch !== native) {
    throw new Error(`deb: a program of ${arch} does not run here: --runtime says its Deno`);
  }
  const { runtime } = JSON.parse(await text([program, "version", "--json"]));
  return runtime.replace(/^deno /, "");
}

/** Debian's vhost-device-vsock: the package, its program, and the source that it was built from. */
async function fetchVsock(dir: string): Promise<{ deb: string; program: string; builtUsing: string }> {
  await text([join(ROOT, "scripts/vsock.sh"), dir, arch]);
  const { value: entry } = await Deno.readDir(dir)[Symbol.asyncIterator]().next();
  const deb = join(dir, entry!.name);
  await text(["dpkg-deb", "-x", deb, join(dir, "tree")]);
  const field = async (name: string) => (await text(["dpkg-deb", "-f", deb, name])).trim();
  return {
    deb,
    program: join(dir, "tree/usr/bin/vhost-device-vsock"),
    builtUsing: `${(await field("Source")).split(" ")[0]} (= ${
      (await field("Version")).replace(/\+b\d+$/, "")
    })`,
  };
}
