import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { packagedOrigin } from "../../../../lib/release/asset/mod.ts";
import { corpDeb, type CorpParts } from "../../../../lib/publish/package/mod.ts";

const CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
const CORP = `[corp_rule_files]
enforcement = "rules/enforcement.toml"

[settings."network.extra_ca_file"]
value = "/etc/sbx/ca.pem"
`;

async function withCorp(work: (parts: CorpParts) => Promise<void>, text = CORP): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const corp = join(dir, "corp.toml");
    await Deno.writeTextFile(corp, text);
    await Deno.writeTextFile(join(dir, "ca.pem"), CERTIFICATE);
    await work({
      manifestUrl: "https://sbx.example.com/manifest.json",
      corp,
      ca: join(dir, "ca.pem"),
      name: "sbx-example",
      version: "1.0",
      maintainer: "nobody <nobody@example.com>",
      minSbx: "0.1.0",
      sourceDateEpoch: 1_764_000_000,
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a company's package has its files, and the origin that an update records", () =>
  withCorp(async (parts) => {
    const { files, scripts, control } = await corpDeb(parts);
    assertEquals(files.map(({ path }) => path), [
      "usr/share/sbx/manifest-origin.json",
      "usr/share/sbx/corp/corp.toml",
      "usr/share/sbx/corp/rules/enforcement.toml",
      "usr/share/sbx/corp/ca.pem",
      "usr/share/doc/sbx-example/copyright",
    ]);
    assertEquals(control.Depends, "sbx (>= 0.1.0)");
    assertStringIncludes(scripts!.postinst, "for file in corp.toml rules/enforcement.toml ca.pem; do");
    const text = (files[0].content as { text: string }).text;
    const path = join(dirname(parts.corp), "origin.json");
    await Deno.writeTextFile(path, text);
    assertEquals(await packagedOrigin(parts.manifestUrl, path), {
      origin: "package",
      packaged_at: "2025-11-24T16:00:00.000Z",
      package_version: "1.0",
    });
    // The line that update-assets reads.
    assertEquals(text.match(/^ *"source": "([^"]*)",*$/m)?.[1], parts.manifestUrl);
  }));

for (
  const [what, change, code] of [
    ["a name with capitals", { name: "Sbx" }, "package.name_invalid"],
    ["a version of words", { version: "new; rm -rf /" }, "package.version_invalid"],
    ["an address over plain http", { manifestUrl: "http://example.com/m.json" }, "manifest.url.invalid"],
    ["an address with a password", { manifestUrl: "https://a:b@example.com/m.json" }, "manifest.url.invalid"],
    ["an address with a quote", { manifestUrl: 'https://example.com/"$(id)".json' }, "manifest.url.invalid"],
    ["no address", { manifestUrl: "manifest.json" }, "manifest.url.invalid"],
    ["a corp.toml that is not there", { corp: "/nonexistent/corp.toml" }, "corp.not_found"],
  ] as [string, Partial<CorpParts>, string][]
) {
  Deno.test(`a company's package: ${what} is refused`, () =>
    withCorp(async (parts) => {
      const error = await assertRejects(() => corpDeb({ ...parts, ...change }), SbxError);
      assertEquals(error.code, code);
    }));
}

for (const path of ["/etc/passwd", "a b", "$(id)", "-rf", "a;b"]) {
  Deno.test(`a company's package: the rule file ${path} is refused`, () =>
    withCorp(async (parts) => {
      const error = await assertRejects(() => corpDeb(parts), SbxError);
      assertEquals(error.code, "package.rule_file_outside");
    }, `[corp_rule_files]\nenforcement = "${path}"\n`));
}

Deno.test("a company's package takes no private key for a certificate", () =>
  withCorp(async (parts) => {
    await Deno.writeTextFile(parts.ca!, `${CERTIFICATE}-----BEGIN PRIVATE KEY-----\n`);
    const error = await assertRejects(() => corpDeb(parts), SbxError);
    assertEquals(error.code, "package.ca_invalid");
  }));

Deno.test("a company's package refuses a corp.toml that sbx would refuse", () =>
  withCorp(async (parts) => {
    const error = await assertRejects(() => corpDeb(parts), SbxError);
    assertEquals(error.code, "corp.invalid");
  }, "unknown = 1\n"));
