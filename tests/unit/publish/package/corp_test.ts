import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join, relative } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { packagedOrigin } from "../../../../lib/release/asset/mod.ts";
import { corpDeb, type CorpParts } from "../../../../lib/publish/package/mod.ts";
import { corpCheck } from "../../../../lib/home/value_check/mod.ts";
import { ReleaseWorkspace } from "../../../helper/release_workspace.ts";

const CERTIFICATE = await makeCertificate();
const RULES = '[corp.rules.a]\naction = "block"\nmatch = \'http.request.host == "x.example"\'\n';
const CORP = `[corp_rule_files]
enforcement = "rules/enforcement.toml"

[settings."network.extra_ca_file"]
value = "/etc/sbx/ca.pem"
`;

/** A self-signed certificate, which sbx reads as an authority. */
async function makeCertificate(): Promise<string> {
  const { success, stdout } = await new Deno.Command("openssl", {
    args:
      "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout /dev/null -days 2 -subj /CN=corp"
        .split(" "),
    stderr: "null",
  }).output();
  if (!success) throw new Error("openssl made no certificate");
  return new TextDecoder().decode(stdout);
}

async function withCorp(work: (parts: CorpParts) => Promise<void>, text = CORP): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const corp = join(dir, "corp.toml");
    await Deno.writeTextFile(corp, text);
    await Deno.writeTextFile(join(dir, "ca.pem"), CERTIFICATE);
    await Deno.mkdir(join(dir, "rules"));
    await Deno.writeTextFile(join(dir, "rules/enforcement.toml"), RULES);
    await work({
      manifestUrl: "https://sbx.example.com/manifest.json",
      corp,
      ca: join(dir, "ca.pem"),
      check: corpCheck,
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
    const { deb: { files, scripts, control }, needs } = await corpDeb(parts);
    assertEquals(needs, []);
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

const PROXY = `[settings."network.upstream_proxy"]
value = "http://proxy.example:3128"

[settings."network.upstream_proxy_auth_file"]
value = "/opt/company/proxy.auth"
`;

for (
  const [what, text, change, problem] of [
    [
      "a rule of its rule file that does not compile",
      CORP,
      { rules: RULES.replace("host", "hst") },
      "unknown field",
    ],
    [
      "certificates that it does not have",
      CORP,
      { ca: undefined },
      "corp.toml:5: network.extra_ca_file: the package",
    ],
    [
      "a price file that it does not have",
      '[settings."network.model_price_file"]\nvalue = "/etc/sbx/p.json"\n',
      {
        ca: undefined,
      },
      "corp.toml:2: network.model_price_file: the package has no /etc/sbx/p.json",
    ],
    [
      "a misspelt setting",
      '[settings."app.auto_updat"]\nvalue = false\n',
      {},
      "corp.toml:1: app.auto_updat: unknown",
    ],
    [
      "a resolver that is none",
      '[settings."network.dns_resolvers"]\nvalue = ["x"]\n',
      {},
      "corp.toml:2: network",
    ],
    [
      "a relative path, which no setting takes",
      '[settings."network.extra_ca_file"]\nvalue = "ca.pem"\n',
      {},
      "corp.toml:2: network.extra_ca_file",
    ],
  ] as [string, string, { rules?: string; ca?: undefined }, string][]
) {
  Deno.test(`a company's package is not made with ${what}`, () =>
    withCorp(async (parts) => {
      const { rules, ...rest } = change;
      if (rules) await Deno.writeTextFile(join(dirname(parts.corp), "rules/enforcement.toml"), rules);
      const made = { ...parts, ...rest };
      if ("ca" in rest) delete made.ca;
      const error = await assertRejects(() => corpDeb(made), SbxError);
      assertEquals(error.code, "corp.invalid");
      assertStringIncludes(error.message, problem);
    }, text));
}

Deno.test("a company's package takes certificates by a relative path", () =>
  withCorp(async (parts) => {
    await corpDeb({ ...parts, ca: relative(Deno.cwd(), parts.ca!) });
  }));

Deno.test("a company's package says which files machines need besides it", () =>
  withCorp(async (parts) => {
    const { needs } = await corpDeb(parts);
    assertEquals(needs, [{ key: "network.upstream_proxy_auth_file", path: "/opt/company/proxy.auth" }]);
  }, PROXY));

Deno.test("a company's package brings further files, and no secret", () =>
  withCorp(async (parts) => {
    const prices = join(dirname(parts.corp), "prices.json");
    await Deno.writeTextFile(prices, '{"schema":"x"}');
    const { deb } = await corpDeb({ ...parts, files: [prices] });
    assertEquals(deb.files.some(({ path }) => path === "usr/share/sbx/corp/prices.json"), true);
    // A program stays one on the machines.
    const program = join(dirname(parts.corp), "proxy-token");
    await Deno.writeTextFile(program, "#!/bin/sh\n", { mode: 0o755 });
    const { files } = (await corpDeb({ ...parts, files: [prices, program] })).deb;
    assertEquals(
      files.filter(({ path }) => /prices|proxy-token/.test(path)).map(({ mode }) => mode),
      [undefined, 0o755],
    );
    for (
      const [name, text, code] of [
        ["corp.toml", "", "package.file_invalid"],
        ["a b", "", "package.file_invalid"],
        ["key.pem", "-----BEGIN PRIVATE KEY-----\n", "package.file_invalid"],
      ]
    ) {
      const path = join(dirname(parts.corp), "more", name);
      await Deno.mkdir(dirname(path), { recursive: true });
      await Deno.writeTextFile(path, text);
      const error = await assertRejects(() => corpDeb({ ...parts, files: [path] }), SbxError);
      assertEquals([name, error.code], [name, code]);
    }
  }));

const CHANNEL = "file:///usr/share/sbx/releases/channels.json";
const RELEASED = `[release]\nchannels_url = "${CHANNEL}"\ninstall_profiles = true\n`;

Deno.test("a company's package brings profiles that its keys signed, and machines would read", () =>
  withCorp(async (parts) => {
    await using workspace = await ReleaseWorkspace.make();
    await workspace.release("1.0.0");
    await workspace.publish();
    const trust = join(workspace.dir, "trust.json");
    const made = { ...parts, trust, releases: workspace.out };
    const { deb, warnings } = await corpDeb(made);
    const paths = deb.files.map(({ path }) => path).filter((path) =>
      path.startsWith("usr/share/sbx/releases/")
    );
    const names = paths.map((path) => path.slice("usr/share/sbx/releases/".length));
    const published = [...(await workspace.published()).keys()];
    // All but the copy of the newest manifest, which no channel names.
    assertEquals(
      names.toSorted(),
      published.filter((name) => !/^assets\/[^/]+\/manifest/.test(name)).toSorted(),
    );
    assertEquals(names.some((name) => name.endsWith(".toml")), true);
    assertEquals(warnings, []);

    const codes = [];
    await Deno.writeTextFile(join(workspace.out, "channels.json"), "{}");
    for (const parts of [made, { ...made, trust: undefined }, { ...made, releases: undefined }]) {
      codes.push((await assertRejects(() => corpDeb(parts as CorpParts), SbxError)).code);
    }
    assertEquals(codes, Array(3).fill("package.releases_invalid"));
  }, RELEASED));

Deno.test("a company's package has no releases that its corp.toml does not name", () =>
  withCorp(async (parts) => {
    const error = await assertRejects(() => corpDeb({ ...parts, releases: "/nonexistent" }), SbxError);
    assertEquals([error.code, error.hint!.includes(CHANNEL)], ["package.releases_invalid", true]);
  }));
