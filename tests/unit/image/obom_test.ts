import library from "@cyclonedx/cyclonedx-library/package.json" with { type: "json" };
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import Ajv from "ajv";
import addFormats from "ajv-formats";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { generateObom, installedPackages } from "../../../lib/image/obom.ts";

const STATUS = `Package: zlib1g
Status: install ok installed
Maintainer: Mark Brown <broonie@debian.org>
Architecture: amd64
Version: 1:1.2.13.dfsg-1

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 12.2.0-14+deb12u1
Description: text with
 Package: not-a-package
 Version: 9

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1
`;

const INPUT = {
  arch: "x86_64" as const,
  suite: "bookworm" as const,
  generatorVersion: "0.1.0",
  rootfsHash: "ab".repeat(32),
  kernelVersion: "6.1.0-1-cloud-amd64",
  status: STATUS,
  licenses:
    "zlib1g/copyright:License: Zlib\nzlib1g/copyright:License: Zlib\nlibstdc++6/copyright:License: GPL-3+ with exception\n",
  npm: [{
    name: "@openai/codex",
    version: "0.169.0",
    integrity: `sha512-${"AA".repeat(42)}AA==`,
    license: "Apache-2.0",
  }],
};

/** Validates against CycloneDX's own schema, from the package of its maintainers. */
async function schemaErrors(document: unknown): Promise<unknown> {
  // The import above installs the package; its schemas are files beside its package.json.
  const folder = dirname(createRequire(import.meta.url).resolve(`${library.name}/package.json`));
  const read = async (name: string) => JSON.parse(await Deno.readTextFile(join(folder, "res/schema", name)));
  // deno-lint-ignore no-explicit-any -- the package's types use another module system
  const ajv = new (Ajv as any)({ strict: false, allErrors: true });
  (addFormats as any)(ajv);
  for (const format of ["iri-reference", "idn-email"]) ajv.addFormat(format, /^\S+$/);
  for (const name of ["spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json"]) {
    ajv.addSchema(await read(name), `http://cyclonedx.org/schema/${name}`);
  }
  const validate = ajv.compile(await read("bom-1.6.SNAPSHOT.schema.json"));
  return validate(document) ? [] : validate.errors;
}

Deno.test("the OBOM is valid against the CycloneDX 1.6 schema", async () => {
  const obom = JSON.parse(generateObom(INPUT));
  assertEquals(await schemaErrors(obom), []);
  // Invalid documents, to show that the schema is applied.
  assertNotEquals(await schemaErrors({ ...obom, extra: 1 }), []);
  obom.components[0].type = "package";
  assertNotEquals(await schemaErrors(obom), []);
});

Deno.test("the OBOM names every installed package, Deno, the guest programs, and its rootfs", () => {
  const { components, metadata } = JSON.parse(generateObom(INPUT));
  assertEquals(components.map(({ name }: { name: string }) => name), [
    "libstdc++6",
    "zlib1g",
    "@openai/codex",
    "deno",
    "sbx-pty-agent",
    "sbx-net-proxy",
    "sbx-mcp-server",
    "sbx-activity",
    "sbx-doctor",
    "sbx-bench",
    "snapshots",
  ]);
  assertEquals(
    components[0].purl,
    "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=bookworm",
  );
  assertEquals(components[1].licenses, [{ license: { name: "Zlib" } }]);
  const { purl, hashes } = components[2];
  assertEquals(purl, "pkg:npm/%40openai/codex@0.169.0");
  assertEquals(hashes, [{ alg: "SHA-512", content: "00".repeat(64) }]);
  assertEquals(components[1].supplier, { name: "Mark Brown" });
  assertEquals(metadata.component.hashes, [{ alg: "BLAKE3", content: INPUT.rootfsHash }]);
  assertEquals(metadata.tools.components[0], { type: "application", name: "sbx-admin", version: "0.1.0" });
});

Deno.test("the same image has the same OBOM, another image has another serial number", () => {
  assertEquals(generateObom(INPUT), generateObom({ ...INPUT }));
  const serial = (text: string) => JSON.parse(text).serialNumber;
  assertNotEquals(
    serial(generateObom(INPUT)),
    serial(generateObom({ ...INPUT, rootfsHash: "cd".repeat(32) })),
  );
  assert(
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(
      serial(generateObom(INPUT)),
    ),
  );
});

Deno.test("removed packages and lines of descriptions are not listed", () => {
  assertEquals(installedPackages(STATUS).map(({ name }) => name), ["libstdc++6", "zlib1g"]);
  assertEquals(installedPackages(""), []);
});
