import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { machineTrust } from "../../base/spawn/mod.ts";
import { hostEnvironment } from "../../base/proxy/mod.ts";
import { archNames } from "./arch.ts";
import { requireTools, run } from "./command.ts";

/**
 * Programs required in the rootfs before it is packaged (docs/design/contracts/10-release.md §10, "Guest
 * programs").
 */
export const GUEST_PROGRAMS = [
  "sbx-pty-agent",
  "sbx-net-proxy",
  "sbx-mcp-server",
  "sbx-activity",
  "sbx-ask",
  "sbx-doctor",
  "sbx-bench",
  "sbx-container",
  "sbx-sign",
  "snapshots",
];

/** Version of the guest's Deno, the same as the one sbx is developed with. */
export const GUEST_DENO_VERSION = "2.9.6";

const ROOT = join(import.meta.dirname!, "../../..");

/**
 * Bundles the guest programs into `<name>.js` in `dir`. A compiled sbx includes the bundles.
 *
 * @param root root folder of the sources, or of the files included in the compiled program
 * @throws {SbxError} `image.guest.failed`: names a program that is missing, empty or does not bundle
 */
export async function bundleGuestPrograms(dir: string, signal?: AbortSignal, root = ROOT): Promise<void> {
  for (const name of GUEST_PROGRAMS) {
    const out = join(dir, `${name}.js`);
    if (Deno.build.standalone) await copyBundle(root, name, out);
    else await bundle(root, name, out, signal);
    const size = await Deno.stat(out).then((info) => info.size, () => 0);
    if (size === 0) throw guestError(name, "its bundle is empty");
  }
}

async function copyBundle(root: string, name: string, out: string): Promise<void> {
  const path = join(root, ".guest", `${name}.js`);
  try {
    await Deno.writeFile(out, await Deno.readFile(path));
  } catch (cause) {
    throw guestError(name, "this build of sbx does not include it", cause);
  }
}

async function bundle(root: string, name: string, out: string, signal?: AbortSignal): Promise<void> {
  const source = `cmd/guest/${name.replace(/^sbx-/, "").replaceAll("-", "_")}/main.ts`;
  const size = await Deno.stat(join(root, source)).then((info) => info.size, () => 0);
  if (size === 0) throw guestError(name, `${source} is missing or empty`);
  const command = [Deno.execPath(), "bundle", "--quiet", "--minify", "--platform", "deno", "-o", out, source];
  try {
    // The bundler itself is fetched the first time.
    const env = { NO_COLOR: "1", ...machineTrust() };
    await run(command, { doing: `bundling ${source}`, env, cwd: root, signal });
  } catch (cause) {
    if (cause instanceof SbxError && cause.code !== "image.interrupted") {
      throw guestError(name, cause.message, cause);
    }
    throw cause;
  }
}

function guestError(name: string, reason: string, cause?: unknown): SbxError {
  return new SbxError("image.guest.failed", `cannot add the guest program ${name} to the image: ${reason}`, {
    cause,
    hint: "make setup installs the dependencies of the sources; deno check cmd/guest shows errors in them",
  });
}

/** Puts the Deno for `arch` at `path`: a copy of the running one for the same architecture, else npm's. */
export async function placeDeno(arch: Arch, path: string, dir: string, signal?: AbortSignal): Promise<void> {
  if (!Deno.build.standalone && arch === currentArch()) return await Deno.copyFile(Deno.execPath(), path);
  await requireTools({ npm: "npm", tar: "tar" });
  const spec = `@deno/linux-${archNames(arch).npm}-glibc@${GUEST_DENO_VERSION}`;
  await run(["npm", "pack", "--loglevel", "error", "--pack-destination", dir, spec], {
    doing: `downloading ${spec}`,
    cwd: dir,
    env: await hostEnvironment(),
    signal,
    hint: "check that npm's registry is reachable: npm view deno version",
  });
  for await (const { name } of Deno.readDir(dir)) {
    if (!name.endsWith(".tgz")) continue;
    await run(["tar", "-xzf", name, "package/deno"], { doing: `unpacking ${name}`, cwd: dir, signal });
  }
  await Deno.rename(join(dir, "package/deno"), path);
}
