/** The layout of the package for arm64, which no machine here runs: a program of one header in its place. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { sh } from "./build.ts";

/** e_machine of AArch64, at byte 18 of an ELF file. */
const AARCH64 = 183;

/**
 * Builds the package as `make deb ARCH=arm64` does, and requires that everything native in it is for arm64.
 */
export async function requireArm64Layout(dir: string): Promise<void> {
  await Deno.mkdir(dir);
  const program = join(dir, "program");
  const header = new Uint8Array(64);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  header[18] = AARCH64;
  await Deno.writeFile(program, header);
  const deb = (await sh(`make --silent deb ARCH=arm64 PROGRAM=${program} RUNTIME=2.0.0 OUT=${dir}/out`, {
    cwd: fromRoot(""),
  })).trim();
  const field = async (name: string) => (await sh(`dpkg-deb -f ${deb} ${name}`)).trim();
  assertEquals(await field("Architecture"), "arm64");
  assert((await field("Depends")).split(", ").includes("qemu-system-arm"));
  await sh(`dpkg-deb -x ${deb} ${dir}/root`);
  const vsock = await Deno.readFile(join(dir, "root/usr/lib/sbx/vhost-device-vsock"));
  assertEquals(vsock[18], AARCH64);
  const sbom = JSON.parse(await Deno.readTextFile(join(dir, "root/usr/share/doc/sbx/sbx-sbom.spdx.json")));
  const natives = sbom.packages.map(({ name }: { name: string }) => name).filter((name: string) =>
    /linux-(?:x64|arm64)/.test(name)
  );
  assert(natives.length > 0 && natives.every((name: string) => name.includes("arm64")), natives.join(" "));
  console.log("ok: the layout of arm64");
}
