import { createHash } from "node:crypto";
import type { Component } from "../lib/release/sbom/mod.ts";

/** SHA-256 of a file in hexadecimal. */
export async function sha256File(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of (await Deno.open(path)).readable) hash.update(chunk);
  return hash.digest("hex");
}

/** Components of Debian's package of vhost-device-vsock: itself, and the Rust libraries linked into it. */
export async function vsockComponents(path: string): Promise<[Component, ...Component[]]> {
  const field = async (name: string) => {
    const { success, stdout } = await new Deno.Command("dpkg-deb", { args: ["-f", path, name] }).output();
    if (!success) throw new Error(`sbom: ${path} is not a Debian package`);
    return new TextDecoder().decode(stdout).trim();
  };
  const [version, arch, linked] = [
    await field("Version"),
    await field("Architecture"),
    await field("Static-Built-Using"),
  ];
  const libraries = linked.split(/,\s*/).filter(Boolean).map((text): Component => {
    const [, name, version] = text.match(/^(\S+) \(= (\S+)\)$/)!;
    const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=source`;
    return { id: purl, name, version, purl, purpose: "LIBRARY" };
  });
  const purl = `pkg:deb/debian/vhost-device-vsock@${encodeURIComponent(version)}?arch=${arch}&distro=sid`;
  return [{
    id: purl,
    name: "vhost-device-vsock",
    version,
    license: "Apache-2.0 AND BSD-3-Clause",
    purl,
    purpose: "APPLICATION",
    checksums: [{ algorithm: "SHA256", value: await sha256File(path) }],
    comment: "Debian's build, unchanged; the checksum is that of Debian's package",
    needs: libraries.map(({ id }) => ({ id, how: "STATIC_LINK" })),
  }, ...libraries];
}
