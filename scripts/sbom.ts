/**
 * Writes `sbx-sbom.spdx.json`: every npm package in the program, Deno's runtime, the C library that
 * it is linked to, and vhost-device-vsock where a package brings it
 * (docs/design/contracts/10-release.md §10, "Release pipeline").
 *
 *     deno run -A scripts/sbom.ts --out FILE --program FILE --runtime VERSION [--target linux-x64] [--vsock FILE.deb]
 */
import { parseArgs } from "@std/cli";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import parseLicense from "spdx-expression-parse";
import { type Component, generateSpdx, spdxProblems } from "../lib/release/sbom/mod.ts";
import { readStamp } from "./build_stamp.ts";
import { HOST_ROOTS, type HostPackage, hostPackages } from "./host_packages.ts";
import { npmFolder } from "./npm_folder.ts";
import { sha256File, vsockComponents } from "./sbom_debian.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

if (import.meta.main) {
  const { out, program, runtime, target = "linux-x64", vsock } = parseArgs(Deno.args, {
    string: ["out", "program", "runtime", "target", "vsock"],
  });
  if (!out || !program || !runtime) throw new Error("sbom: --out, --program and --runtime are needed");
  const stamp = await readStamp(ROOT, Deno.env.get("BUILD_VERSION") || undefined);
  const text = generateSpdx({
    components: await components({ version: stamp.version, program, runtime, target, vsock }),
    generatorVersion: stamp.version,
    created: stamp.sourceDateEpoch,
  });
  const problems = spdxProblems(text, isLicense);
  if (problems.length) throw new Error(`sbom: ${problems.join("\nsbom: ")}`);
  await Deno.mkdir(dirname(out), { recursive: true });
  await Deno.writeTextFile(out, text);
}

/** Tests an SPDX licence expression. */
export function isLicense(expression: string): boolean {
  try {
    parseLicense(expression);
    return true;
  } catch {
    return false;
  }
}

/** The parts of a program, and the paths of their bytes. */
export interface Parts {
  version: string;
  /** path of the program */
  program?: string;
  /** version of Deno in it */
  runtime: string;
  /** npm's name of the system, such as linux-x64 */
  target: string;
  /** path of Debian's package of vhost-device-vsock */
  vsock?: string;
}

/** Components of the program; the program is the first. */
export async function components(
  { version, program, runtime, target, vsock }: Parts,
): Promise<[Component, ...Component[]]> {
  const packages = await npmComponents(target);
  const bundled = vsock ? await vsockComponents(vsock) : [];
  const depended = new Set(packages.flatMap(({ needs = [] }) => needs.map(({ id }) => id)));
  const deno: Component = {
    id: `pkg:github/denoland/deno@v${runtime}`,
    name: "deno",
    version: runtime,
    license: "MIT",
    purl: `pkg:github/denoland/deno@v${runtime}`,
    download: `https://github.com/denoland/deno/releases/tag/v${runtime}`,
    purpose: "FRAMEWORK",
    comment: "the runtime in front of the program; V8 and its Rust libraries are parts of it",
  };
  const libc: Component = {
    id: "libc",
    name: "glibc",
    license: "LGPL-2.1-or-later",
    purpose: "LIBRARY",
    comment: "of the system that the program runs on; called by FFI (ffi/libc)",
  };
  const sbx: Component = {
    id: "sbx",
    name: "sbx",
    version,
    license: "Apache-2.0",
    purl: `pkg:generic/sbx@${version}`,
    purpose: "APPLICATION",
    ...(program && { checksums: [{ algorithm: "SHA256", value: await sha256File(program) }] }),
    needs: [
      { id: deno.id, how: "CONTAINS" },
      { id: libc.id, how: "DYNAMIC_LINK" },
      ...packages.filter(({ id }) => !depended.has(id)).map(({ id }) => ({ id, how: "CONTAINS" as const })),
      ...bundled.slice(0, 1).map(({ id }) => ({ id, how: "DEPENDS_ON" as const })),
    ],
  };
  return [sbx, deno, libc, ...packages, ...bundled];
}

async function npmComponents(target: string): Promise<Component[]> {
  const { npm } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.lock")));
  // The guest's programs are in the program too, bundled.
  const guests = await Array.fromAsync(Deno.readDir(join(ROOT, "cmd/guest")), ({ name }) => name);
  const sources = [
    ...HOST_ROOTS,
    "cmd/desktop/main.tsx",
    ...guests.map((name) => `cmd/guest/${name}/main.ts`),
  ];
  const packages = (await hostPackages(ROOT, sources)).filter((each) =>
    runsOn(npm[each.key], each.name, target)
  );
  const byKey = new Map(packages.map((each) => [each.key, each]));
  return await Promise.all(packages.map(async (each) => ({
    id: purlOf(each),
    name: each.name,
    version: each.version,
    license: await licenseOf(each),
    purl: purlOf(each),
    download: `https://registry.npmjs.org/${each.name}/-/${each.name.split("/").at(-1)}-${each.version}.tgz`,
    checksums: [{ algorithm: "SHA512" as const, value: sha512Of(npm[each.key].integrity) }],
    purpose: "LIBRARY" as const,
    needs: unique(each.dependencies.flatMap((key) => byKey.get(key) ?? []).map(purlOf))
      .map((id) => ({ id, how: "DEPENDS_ON" as const })),
  }))).then(distinct);
}

/** Tests whether a package is for the system; natives of other systems are in the lock, and in no program. */
function runsOn({ os, cpu }: { os?: string[]; cpu?: string[] }, name: string, target: string): boolean {
  const [system, processor] = target.split("-");
  return (os?.includes(system) ?? true) && (cpu?.includes(processor) ?? true) && !/musl|android/.test(name);
}

async function licenseOf({ name, version }: HostPackage): Promise<string> {
  const { license, licenses }: { license?: string; licenses?: { type: string }[] } = JSON.parse(
    await Deno.readTextFile(join(await npmFolder(name, version), "package.json")),
  );
  // The list is the form of old packages: any of them holds.
  return license ?? licenses!.map(({ type }) => type).join(" OR ");
}

function purlOf({ name, version }: HostPackage): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

function sha512Of(integrity: string): string {
  return Uint8Array.fromBase64(integrity.replace(/^sha512-/, "")).toHex();
}

function unique(texts: string[]): string[] {
  return [...new Set(texts)].sort();
}

/** One component for packages that differ in their peers only. */
function distinct(all: Component[]): Component[] {
  const byId = new Map<string, Component>();
  for (const each of all) {
    const needs = [...byId.get(each.id)?.needs ?? [], ...each.needs ?? []];
    byId.set(each.id, {
      ...each,
      needs: needs.filter(({ id }, at) => needs.findIndex((n) => n.id === id) === at),
    });
  }
  return [...byId.values()];
}
