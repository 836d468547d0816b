import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Arch, archNames, hostArch } from "./arch.ts";
import { run } from "./command.ts";
import { requireTools } from "./tool.ts";

/**
 * Programs that must be in the rootfs before it is packaged (spec.md, "Versioning" 10). The issues that build
 * sbx-doctor and snapshots add them here.
 */
export const GUEST_PROGRAMS = ["sbx-pty-agent", "sbx-net-proxy", "sbx-mcp-server", "sbx-bench"];

/** Deno of the guest; the same that deno.json is written for. */
export const GUEST_DENO_VERSION = "2.9.6";

const ROOT = join(import.meta.dirname!, "../..");

/**
 * Bundles the guest's programs into `<name>.js` in `dir`. A compiled sbx carries them bundled.
 *
 * @param root the sources, or what the compiled program carries of them
 * @throws {SbxError} `image.guest.failed` naming a program that is missing, empty or does not bundle
 */
export async function bundleGuestPrograms(dir: string, signal?: AbortSignal, root = ROOT): Promise<void> {
  for (const name of GUEST_PROGRAMS) {
    const out = join(dir, `${name}.js`);
    if (Deno.build.standalone) await copyBundle(root, name, out);
    else await bundle(root, name, out, signal);
    const size = await Deno.stat(out).then((info) => info.size, () => 0);
    if (size === 0) throw failed(name, "its bundle is empty");
  }
}

async function copyBundle(root: string, name: string, out: string): Promise<void> {
  const path = join(root, ".guest", `${name}.js`);
  try {
    await Deno.writeFile(out, await Deno.readFile(path));
  } catch (cause) {
    throw failed(name, "this build of sbx does not carry it", cause);
  }
}

async function bundle(root: string, name: string, out: string, signal?: AbortSignal): Promise<void> {
  const source = `cmd/guest/${name.replace(/^sbx-/, "").replaceAll("-", "_")}/main.ts`;
  const size = await Deno.stat(join(root, source)).then((info) => info.size, () => 0);
  if (size === 0) throw failed(name, `${source} is missing or empty`);
  const command = [Deno.execPath(), "bundle", "--quiet", "--minify", "--platform", "deno", "-o", out, source];
  try {
    await run(command, { doing: `bundling ${source}`, cwd: root, signal });
  } catch (cause) {
    if (cause instanceof SbxError && cause.code !== "image.interrupted") {
      throw failed(name, cause.message, cause);
    }
    throw cause;
  }
}

function failed(name: string, why: string, cause?: unknown): SbxError {
  return new SbxError("image.guest.failed", `the guest program ${name} cannot go into the image: ${why}`, {
    cause,
    hint: "make setup brings the sources' dependencies; deno check cmd/guest shows what is wrong with them",
  });
}

/** Puts the Deno of `arch` at `path`: the one that runs this, where that is the same, and npm's otherwise. */
export async function guestDeno(arch: Arch, path: string, dir: string, signal?: AbortSignal): Promise<void> {
  if (!Deno.build.standalone && arch === hostArch()) return await Deno.copyFile(Deno.execPath(), path);
  await requireTools({ npm: "npm", tar: "tar" });
  const spec = `@deno/linux-${archNames(arch).npm}-glibc@${GUEST_DENO_VERSION}`;
  await run(["npm", "pack", "--loglevel", "error", "--pack-destination", dir, spec], {
    doing: `downloading ${spec}`,
    cwd: dir,
    signal,
    hint: "is npm's registry reachable? npm view deno version should answer",
  });
  for await (const { name } of Deno.readDir(dir)) {
    if (!name.endsWith(".tgz")) continue;
    await run(["tar", "-xzf", name, "package/deno"], { doing: `unpacking ${name}`, cwd: dir, signal });
  }
  await Deno.rename(join(dir, "package/deno"), path);
}
