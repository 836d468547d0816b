import library from "@cyclonedx/cyclonedx-library/package.json" with { type: "json" };
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import Ajv from "ajv";
import addFormats from "ajv-formats";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { generateObom, installedPackages } from "../../../../lib/publish/image/obom.ts";
import { isLicense } from "../../../../scripts/sbom.ts";

const STATUS = `Package: zlib1g
Status: install ok installed
Maintainer: Mark Brown <broonie@debian.org>
Provides: zlib-abi (= 2)
Architecture: amd64
Version: 1:1.2.13.dfsg-1

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 12.2.0-14+deb12u1
Pre-Depends: zlib-abi (>= 1)
Depends: not-installed | zlib1g:any (>= 1.2) [linux-any], removed, libstdc++6
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
    "zlib1g/copyright:License: Zlib\nzlib1g/copyright:License: Zlib\nlibstdc++6/copyright:License: GPL-3+ with exception\n" +
    "libstdc++6/copyright:License: Artistic or GPL-1+\n",
  npm: [{
    name: "@openai/codex",
    version: "0.169.0",
    integrity: `sha512-${"AA".repeat(42)}AA==`,
    license: "Apache-2.0",
    dependencies: ["left@1.0.0"],
  }, {
    name: "left",
    version: "1.0.0",
    integrity: `sha512-${"AA".repeat(42)}AA==`,
    license: "SEE LICENSE IN file",
  }],
};

/** Validates against CycloneDX's own schema, from the package of its maintainers. */
async function schemaErrors(document: unknown): Promise<unknown> {
  // The import above installs the package; its schemas are files beside its package.json.
  const folder = dirname(createRequire(import.meta.url).resolve(`${library.name}/package.json`));
  const read = async (name: string) => JSON.parse(await Deno.readTextFile(join(folder, "res/schema", name)));
  // The packages' types are of another module system.
  const ajv = new (Ajv as unknown as typeof Ajv.default)({ strict: false, allErrors: true });
  (addFormats as unknown as typeof addFormats.default)(ajv);
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

Deno.test("the OBOM names a company's own packages and files with their hashes", async () => {
  const [a, b] = ["a".repeat(64), "b".repeat(64)];
  const obom = JSON.parse(generateObom({
    ...INPUT,
    own: [
      { kind: "deb", name: "zlib1g", version: "1:1.2.13.dfsg-1", hash: `sha256:${a}` },
      { kind: "pip", name: "corp-greet", version: "1.2.0", hash: `sha256:${b}`, license: "Company Internal" },
      { kind: "cargo", name: "corp-hello", version: "0.3.0", hash: `sha256:${b}` },
      { kind: "go", name: "corp.example/tool", version: "v1.4.0", hash: `h1:${"A".repeat(43)}=` },
    ],
    files: [{ name: "/etc/corp.conf", sha256: a }],
    added: [`script:setup.sh@sha256:${a}`],
  }));
  assertEquals(await schemaErrors(obom), []);
  const found = (name: string) => obom.components.find((each: { name: string }) => each.name === name);
  assertEquals(found("zlib1g").hashes, [{ alg: "SHA-256", content: a }]);
  assertEquals(found("libstdc++6").hashes, undefined);
  assertEquals(found("corp-greet").purl, "pkg:pypi/corp-greet@1.2.0");
  assertEquals(found("corp-greet").licenses, [{ license: { name: "Company Internal" } }]);
  assertEquals(found("corp-hello").hashes, [{ alg: "SHA-256", content: b }]);
  assertEquals(found("corp.example/tool").purl, "pkg:golang/corp.example/tool@v1.4.0");
  assertEquals(found("/etc/corp.conf").type, "file");
  const added = { name: "sbx:added", value: `script:setup.sh@sha256:${a}` };
  assertEquals(obom.metadata.component.properties.at(-1), added);
  assertEquals(obom.dependencies[0].dependsOn.length, obom.components.length);
});

Deno.test("the OBOM names every installed package, Deno, the guest programs, and its rootfs", () => {
  const { components, metadata } = JSON.parse(generateObom(INPUT));
  assertEquals(components.map(({ name }: { name: string }) => name), [
    "libstdc++6",
    "zlib1g",
    "@openai/codex",
    "left",
    "deno",
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
  ]);
  assertEquals(
    components[0].purl,
    "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=bookworm",
  );
  assertEquals(components[1].licenses, [{ license: { id: "Zlib" } }]);
  assertEquals(components[0].licenses, [{
    expression: "(Artistic-1.0-Perl OR GPL-1.0-or-later) AND LicenseRef-Debian-GPL-3-or-later-with-exception",
  }]);
  assertEquals(components[2].licenses, [{ license: { id: "Apache-2.0" } }]);
  assertEquals(components[3].licenses, [{ license: { name: "SEE LICENSE IN file" } }]);
  const { purl, hashes } = components[2];
  assertEquals(purl, "pkg:npm/%40openai/codex@0.169.0");
  assertEquals(hashes, [{ alg: "SHA-512", content: "00".repeat(64) }]);
  assertEquals(components[1].supplier, { name: "Mark Brown" });
  assertEquals(metadata.component.hashes, [{ alg: "BLAKE3", content: INPUT.rootfsHash }]);
  assertEquals(metadata.tools.components[0], { type: "application", name: "sbx-admin", version: "0.1.0" });
});

Deno.test("the OBOM says what its components need of each other", () => {
  const { components, dependencies } = JSON.parse(generateObom(INPUT));
  const refs = components.map((each: Record<string, string>) => each["bom-ref"]);
  const needs = new Map<string, string[]>(
    dependencies.map(({ ref, dependsOn }: { ref: string; dependsOn: string[] }) => [ref, dependsOn]),
  );
  assertEquals([...needs.keys()].sort(), ["rootfs", ...refs].sort());
  assertEquals(needs.get("rootfs"), refs);
  const [stdc, zlib, codex, left, deno, agent] = refs;
  assertEquals(needs.get(stdc), [zlib]);
  assertEquals([needs.get(zlib), needs.get(codex), needs.get(left)], [[], [left], []]);
  assertEquals([needs.get(deno), needs.get(agent)], [[], [deno]]);
});

Deno.test("licences in the OBOM are expressions of SPDX", () => {
  const { components } = JSON.parse(generateObom(INPUT));
  const texts = components.flatMap((
    { licenses = [] }: { licenses?: { expression?: string; license?: { id?: string } }[] },
  ) => licenses.flatMap(({ expression, license }) => expression ?? license?.id ?? []));
  assert(texts.length > 5);
  for (const text of texts) assert(isLicense(text), text);
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
