import { assertEquals, assertStringIncludes } from "@std/assert";
import { type Component, generateSpdx, spdxProblems } from "../../../../lib/release/sbom/mod.ts";
import { components, isLicense } from "../../../../scripts/sbom.ts";
import { fromRoot } from "../../../helper/repo.ts";
import type { Parsed } from "../../../helper/json.ts";

const CREATED = 1_764_000_000;
const LIBRARY: Component = {
  id: "pkg:npm/%40a/b@1.0.0",
  name: "@a/b",
  version: "1.0.0",
  license: "MIT",
  purl: "pkg:npm/%40a/b@1.0.0",
  download: "https://registry.npmjs.org/@a/b/-/b-1.0.0.tgz",
  checksums: [{ algorithm: "SHA512", value: "0".repeat(128) }],
  purpose: "LIBRARY",
};
const ROOT: Component = {
  id: "sbx",
  name: "sbx",
  version: "1.0.0",
  license: "Apache-2.0",
  purpose: "APPLICATION",
  needs: [{ id: LIBRARY.id, how: "CONTAINS" }],
};

function spdx(library: Partial<Component> = {}, root: Partial<Component> = {}): string {
  return generateSpdx({
    components: [{ ...ROOT, ...root }, { ...LIBRARY, ...library }],
    generatorVersion: "1.0.0",
    created: CREATED,
  });
}

Deno.test("an SBOM is the same text for the same components", () => {
  assertEquals(spdx(), spdx());
  assertEquals(spdxProblems(spdx(), isLicense), []);
  const document = JSON.parse(spdx());
  assertEquals(document.creationInfo.created, "2025-11-24T16:00:00Z");
  assertEquals(document.relationships[0], {
    spdxElementId: "SPDXRef-DOCUMENT",
    relationshipType: "DESCRIBES",
    relatedSpdxElement: "SPDXRef-sbx",
  });
  const namespaces = [spdx(), spdx({ version: "1.0.1" })].map((text) => JSON.parse(text).documentNamespace);
  assertEquals(new Set(namespaces).size, 2);
});

Deno.test("an SBOM names each element by its own id", () => {
  const text = generateSpdx({
    components: [
      { ...ROOT, needs: [{ id: "a/b", how: "CONTAINS" }, { id: "a_b", how: "CONTAINS" }] },
      { ...LIBRARY, id: "a/b" },
      { ...LIBRARY, id: "a_b" },
    ],
    generatorVersion: "1.0.0",
    created: CREATED,
  });
  assertEquals(spdxProblems(text, isLicense), []);
});

Deno.test("the check finds what the shape of an SBOM cannot", () => {
  const problem = (text: string) => spdxProblems(text, isLicense).join("\n");
  const edit = (change: (document: Parsed) => void) => {
    const document = JSON.parse(spdx());
    change(document);
    return problem(JSON.stringify(document));
  };
  assertStringIncludes(problem(spdx({ license: "MIT or so" })), '"MIT or so" is not an SPDX licence');
  assertStringIncludes(problem(spdx({ license: undefined })), "needs checksum, licence and address");
  assertStringIncludes(problem(spdx({ checksums: undefined })), "needs checksum, licence and address");
  assertStringIncludes(
    problem(spdx({ checksums: [{ algorithm: "SHA512", value: "00" }] })),
    "SHA512 has the wrong length",
  );
  assertStringIncludes(problem(spdx({}, { needs: [] })), "nothing needs SPDXRef-pkg-npm-40a-b-1.0.0");
  assertStringIncludes(edit((d) => d.packages.push(d.packages[1])), "two elements are");
  assertStringIncludes(
    edit((d) => d.relationships[1].relatedSpdxElement = "SPDXRef-other"),
    "SPDXRef-other, which is not an element",
  );
  assertStringIncludes(edit((d) => d.relationships.push(d.relationships[0])), "describes 2 packages");
  assertStringIncludes(edit((d) => d.spdxVersion = "SPDX-2.2"), "spdxVersion");
  assertStringIncludes(edit((d) => d.extra = 1), "extra");
});

Deno.test("the SBOM of this source has every package of the program, and none of the tests", async () => {
  const parts = { version: "0.1.0", runtime: "2.9.6", target: "linux-x64" };
  const text = generateSpdx({
    components: await components(parts),
    generatorVersion: "0.1.0",
    created: CREATED,
  });
  assertEquals(spdxProblems(text, isLicense), []);
  const names = JSON.parse(text).packages.map(({ name }: { name: string }) => name);
  for (
    const name of [
      "hono",
      "zod",
      "deno",
      "glibc",
      "@napi-rs/blake-hash-linux-x64-gnu",
      "@modelcontextprotocol/sdk",
    ]
  ) {
    assertEquals(names.includes(name), true, name);
  }
  const lock = JSON.parse(await Deno.readTextFile(fromRoot("deno.lock")));
  for (const name of ["@babel/parser", "@cyclonedx/cyclonedx-library", "@napi-rs/blake-hash-darwin-arm64"]) {
    assertEquals(names.includes(name), false, name);
    assertEquals(Object.keys(lock.npm).some((key) => key.startsWith(`${name}@`)), true, name);
  }
});
