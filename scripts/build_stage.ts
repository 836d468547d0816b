import { dirname, join } from "node:path";
import type { HostPackage } from "./host_packages.ts";

/** Files of packages that no program reads. */
const UNUSED = /\.(?:map|md|markdown|d\.[cm]?ts)$/i;
const REGISTRY = "registry.npmjs.org";

/** A relative path of a module in minified code, with the quote before it; computed ones are templates. */
export const MODULE_PATH = /(["']\.{1,2}\/[\w./-]+|`\.{1,2}\/[^`]*)\.ts(?=["'`])/g;

/** Copies a file or folder with fixed modes, without files whose name `leaves` matches. */
export async function copyTree(from: string, to: string, leaves?: RegExp): Promise<void> {
  const { isDirectory, mode } = await Deno.stat(from);
  if (!isDirectory) {
    await Deno.mkdir(dirname(to), { recursive: true });
    await Deno.copyFile(from, to);
    return await Deno.chmod(to, mode! & 0o100 ? 0o755 : 0o644);
  }
  await Deno.mkdir(to, { recursive: true });
  for await (const { name } of Deno.readDir(from)) {
    if (!leaves?.test(name)) await copyTree(join(from, name), join(to, name), leaves);
  }
}

/** Copies packages of Deno's cache that are in it: the native ones of other systems are not. */
export async function copyPackages(packages: HostPackage[], from: string, to: string): Promise<void> {
  for (const { name, version } of packages) {
    const [source, target] = [from, to].map((cache) => join(cache, REGISTRY, name));
    if (!await Deno.stat(join(source, version)).catch(() => undefined)) continue;
    await copyTree(join(source, version), join(target, version), UNUSED);
  }
}

/** Sets the times of everything below a folder, in seconds since 1970. */
export async function setTimes(dir: string, seconds: number): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(dir)) {
    if (isDirectory) await setTimes(join(dir, name), seconds);
    else await Deno.utime(join(dir, name), seconds, seconds);
  }
  await Deno.utime(dir, seconds, seconds);
}
