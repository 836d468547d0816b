/** Invalid packs are rejected, with the file, line and path of each problem. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { compileRead, diagnosticsOf } from "../../../lib/detection/compile/mod.ts";
import { packOf, readPack, validationOf } from "../../../lib/detection/pack/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

const GOOD = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.yaml"));
const GOOD_JSON = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.json"));
const GOOD_TOML = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.toml"));

/** Compiles a pack in its own folder. @returns the IR, the problems, and the validation report */
async function compileText(text: string, name = "p.yaml", files: Record<string, string> = {}) {
  const dir = await Deno.makeTempDir();
  try {
    for (const [file, content] of Object.entries(files)) await Deno.writeTextFile(`${dir}/${file}`, content);
    await Deno.writeTextFile(`${dir}/${name}`, text);
    const read = await readPack(`${dir}/${name}`);
    const { ir, problems } = await compileRead(read);
    const diagnostics = diagnosticsOf(problems).map(({ path, message }) =>
      `${path} ${message.replaceAll(`${dir}/`, "")}`
    );
    return { ir, messages: diagnostics.join("\n"), validation: validationOf(read, name) };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const withLine = (from: string, to: string) => {
  assert(GOOD.includes(from), from);
  return GOOD.replace(from, to);
};

const BAD: [string, string, string][] = [
  [
    "an unknown key",
    withLine("owner: user", "owner: user\nonwer: user"),
    'onwer p.yaml:6: unknown key; did you mean "owner"?',
  ],
  ["another schema", withLine("pack.v1", "pack.v2"), "schema p.yaml:1: must be"],
  ["an upper-case id", withLine("id: sbx.minimal", "id: Sbx.minimal"), "id p.yaml:2: must be a pack id"],
  ["a short id", withLine("id: sbx.minimal", "id: ab"), "id p.yaml:2: must be a pack id"],
  ["a version that is a number", withLine('"1.0.0"', "1.0"), "version p.yaml:3: must be text"],
  ["an unknown status", withLine("status: active", "status: live"), "status p.yaml:4: must be one of"],
  ["an unknown owner", withLine("owner: user", "owner: me"), "owner p.yaml:5: must be one of"],
  [
    "an unknown family",
    withLine("  http:\n", "  htpt:\n"),
    'field_mapping.htpt p.yaml:8: unknown key; did you mean "http"?',
  ],
  [
    "an unknown event field",
    withLine("http.request.host", "http.request.hots"),
    'field_mapping.http.Host p.yaml:9: http events have no field http.request.hots; did you mean "http.request.host"?',
  ],
  [
    "a field of another family",
    withLine("http.request.host", "dns.request.qname"),
    "field_mapping.http.Host p.yaml:9: dns.request.qname belongs to another family; http rules can use http.* and common.*",
  ],
  [
    "a field that is a map",
    withLine("http.request.host", "http.request.headers"),
    "http.request.headers is a map",
  ],
  [
    "mappings that differ in case",
    withLine("    Method: http", "    HOST: http.request.url\n    Method: http"),
    'differs from "Host" only in case',
  ],
  [
    "no mapping",
    withLine("  http:\n    Host: http.request.host\n    Method: http.request.method\n", "  {}\n"),
    "field_mapping p.yaml:7: must not be empty: sigma sources need a mapping of their fields",
  ],
  [
    "no source",
    GOOD.replace(/sources:[\s\S]*findings:/, "sources: []\nfindings:"),
    "sources p.yaml:11: must be at least 1 element",
  ],
  [
    "a sigma source in JSON",
    withLine("format: yaml", "format: json"),
    "sources[0].format p.yaml:14: must be yaml for a sigma source",
  ],
  [
    "a source without content",
    GOOD.replace(/ {4}content:[\s\S]*findings:/, "findings:"),
    "is missing; add content, a path or a url",
  ],
  [
    "an unknown severity",
    withLine("default_severity: medium", "default_severity: severe"),
    "findings.default_severity p.yaml:31: must be one of",
  ],
  [
    "a duplicate key",
    withLine("owner: user", "owner: user\nowner: corp"),
    'p.yaml:6: duplicate key "owner", first on line 5',
  ],
  [
    "a duplicate key in the rule",
    withLine("      status: stable", "      status: stable\n      status: test"),
    'sources[0].content p.yaml:19: duplicate key "status", first on line 18',
  ],
  ["a tab", withLine("  http:\n", "\thttp:\n"), "p.yaml:8: this line is indented with a tab"],
  ["a tag", withLine("owner: user", "owner: !!str user"), "p.yaml:5: the tag !!str is not supported"],
  [
    "a tag that constructs an object",
    withLine("owner: user", "owner: !!python/object:os.system user"),
    "p.yaml:5: the tag",
  ],
  ["an alias", withLine("owner: user", "owner: &o user\nextra: *o"), "p.yaml:5: an anchor"],
  ["two documents", `${GOOD}---\n${GOOD}`, "p.yaml:36: a second YAML document begins here"],
  ["a directive", `%YAML 1.1\n---\n${GOOD}`, "p.yaml:1: YAML directives (%…) are not supported"],
  [
    "a wildcard in the rule",
    withLine("Host: api.github.com", "Host: '*.github.com'"),
    "sources[0].content p.yaml:24: Host: the wildcard *",
  ],
  ["invalid YAML", "{[", "p.yaml:1: invalid YAML"],
  ["an empty file", "", "p.yaml:1: the text is empty"],
  ["a list", "- a\n", "p.yaml:1: must be a table"],
  ["a string", "pack\n", "p.yaml:1: must be a table"],
];

Deno.test("invalid packs: each is rejected with its location", async (t) => {
  for (const [name, text, expected] of BAD) {
    await t.step(name, async () => {
      const { ir, messages } = await compileText(text);
      assertEquals(ir, undefined);
      assert(messages.includes(expected), messages);
    });
  }
});

Deno.test("problems of a rule inside JSON and TOML have the nearest line", async () => {
  const wildcard = (text: string) => text.replace("api.github.com", "'*.github.com'");
  assert(
    (await compileText(wildcard(GOOD_TOML), "p.toml")).messages.includes("sources[0].content p.toml:25: "),
  );
  // In JSON the rule is one line.
  const json = await compileText(wildcard(GOOD_JSON), "p.json");
  const line = GOOD_JSON.split("\n").findIndex((text) => text.includes('"content"')) + 1;
  assert(json.messages.includes(`p.json:${line}: Host: the wildcard`), json.messages);
  assert(
    (await compileText(GOOD_JSON.replace("{", '{"owner": "corp",'), "p.json")).messages.includes(
      "duplicate key",
    ),
  );
  assert((await compileText(GOOD_JSON.slice(0, -30), "p.json")).messages.includes("invalid JSON"));
  assert((await compileText("a = 1\na = 2\n", "p.toml")).messages.includes("p.toml:2: "));
});

Deno.test("an alias bomb, deep nesting and a 10 MB pack are rejected at once", async () => {
  const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
  for (let at = 1; at < 12; at++) {
    const [name, below] = [String.fromCharCode(97 + at), String.fromCharCode(96 + at)];
    bomb.push(`${name}: &${name} [${Array(9).fill(`*${below}`).join(", ")}]`);
  }
  assert((await compileText(bomb.join("\n"))).messages.includes("p.yaml:1: an anchor"));
  assert((await compileText("[".repeat(200_000))).messages.includes("nested deeper"));
  assert(
    (await compileText("[".repeat(200_000) + "]".repeat(200_000), "p.json")).messages.includes(
      "nested deeper",
    ),
  );
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/p.yaml`, GOOD + "# ".padEnd(10_000_000, "x"));
  const error = await assertRejects(() => readPack(`${dir}/p.yaml`), SbxError);
  assertEquals(error.code, "detection.too_large");
  await Deno.remove(dir, { recursive: true });
  // The same limit applies to data: a request may be that long.
  const pack = JSON.parse(GOOD_JSON);
  pack.sources[0].content += "# ".padEnd(5_000_000, "x");
  assertEquals(packOf(pack).pack, undefined);
});

Deno.test("sources: files below the pack are read, and no others", async () => {
  const rule = GOOD.match(/content: \|\n([\s\S]*?)findings:/)![1].replace(/^ {6}/gm, "");
  const source = (extra: string) => GOOD.replace(/ {4}content:[\s\S]*findings:/, `${extra}findings:`);
  const good = await compileText(
    source(`    path: rule.yml\n    hash: "blake3:${blake3(rule)}"\n`),
    "p.yaml",
    { "rule.yml": rule },
  );
  assertEquals(good.messages, "");
  assertEquals(good.ir?.rules.length, 1);
  const bad: [string, string][] = [
    [`    path: rule.yml\n    hash: "blake3:${"0".repeat(64)}"\n`, "the source does not match its hash"],
    ["    path: ../rule.yml\n", "must be a relative path below the pack's folder"],
    ["    path: /etc/passwd\n", "must be a relative path below the pack's folder"],
    ["    path: missing.yml\n", "cannot be read"],
    [
      "    url: https://rules.example/rule.yml\n",
      "sbx does not download sources; download https://rules.example/rule.yml and set its path",
    ],
    [
      "    path: rule.yml\n    signature_url: https://rules.example/rule.sig\n",
      "sbx does not check signatures",
    ],
    ["    path: rule.yml\n    content: x\n", "cannot be combined with content"],
  ];
  for (const [extra, expected] of bad) {
    const { ir, messages } = await compileText(source(extra), "p.yaml", { "rule.yml": rule });
    assertEquals(ir, undefined);
    assert(messages.includes(expected), messages);
  }
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/outside.yml`, rule);
  await Deno.mkdir(`${dir}/pack`);
  await Deno.symlink(`${dir}/outside.yml`, `${dir}/pack/rule.yml`);
  await Deno.writeTextFile(`${dir}/pack/p.yaml`, source("    path: rule.yml\n"));
  const { problems } = await compileRead(await readPack(`${dir}/pack/p.yaml`));
  assert(problems[0].message.includes("is outside the pack's folder"));
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a problem in a source file has that file and line", async () => {
  const text = GOOD.replace(/ {4}content:[\s\S]*findings:/, "    path: rule.yml\nfindings:");
  const rule =
    "title: x\nlogsource: {product: sbx, category: http}\ndetection:\n  s:\n    Host|contains: x\n  condition: s\n";
  const { messages } = await compileText(text, "p.yaml", { "rule.yml": rule });
  assert(messages.startsWith("sources[0].path rule.yml:5: Host|contains: the modifier"), messages);
});

Deno.test("IR sources: same pack and version, strictly validated, with the pack's source id", async () => {
  const ir = JSON.parse(await Deno.readTextFile(fromRoot("schemas/fixtures/detection-ir-v1-valid.json")));
  const pack = (content: unknown) => {
    const value = JSON.parse(GOOD_JSON);
    value.sources = [{ id: "compiled", type: "ir", format: "json", content: JSON.stringify(content) }];
    return compileRead(packOf(value));
  };
  assertEquals((await pack(ir)).ir?.rules.map(({ id, source_id }) => [id, source_id]), [[
    "github-upload",
    "compiled",
  ]]);
  for (
    const [content, expected] of [
      [{ ...ir, extra: 1 }, "unknown key"],
      [{ ...ir, pack_version: "2" }, "the IR belongs to sbx.minimal 2; this pack is sbx.minimal 1.0.0"],
      [{ ...ir, rules: [{ ...ir.rules[0], event_family: "dns" }] }, "belongs to another family"],
      [
        { ...ir, rules: [{ ...ir.rules[0], matchers: [{ ...ir.rules[0].matchers[0], values: [1] }] }] },
        "must be a string, the type of http.request.host",
      ],
      [{ ...ir, rules: [ir.rules[0], ir.rules[0]] }, 'duplicate rule id "github-upload"'],
    ] as const
  ) {
    const { ir: compiled, problems } = await pack(content);
    assertEquals(compiled, undefined);
    assert(problems.some(({ message }) => message.includes(expected)), JSON.stringify(problems));
  }
});

Deno.test("several rules in one source have distinct ids", async () => {
  const rule = (title: string, id = "") =>
    `- title: ${title}\n${
      id && `  id: ${id}\n`
    }  logsource: {product: sbx, category: http}\n  detection:\n    s: {Host: x.example}\n    condition: s\n`;
  const compile = (content: string) => {
    const value = JSON.parse(GOOD_JSON);
    value.sources[0].content = content;
    return compileRead(packOf(value));
  };
  const uuid = "ABCDEF00-1111-4222-8333-444455556666";
  const { ir } = await compile(rule("Upload, to a Paste site!") + rule("B", uuid));
  assertEquals(ir?.rules.map(({ id }) => id), [
    "github-upload.upload-to-a-paste-site",
    `github-upload.${uuid.toLowerCase()}`,
  ]);
  for (const content of [rule("Same") + rule("SAME"), rule("A", uuid) + rule("B", uuid.toLowerCase())]) {
    const { ir, problems } = await compile(content);
    assertEquals(ir, undefined);
    assert(problems[0].message.startsWith("two rules have the id"), problems[0].message);
  }
});

Deno.test("a deprecated pack compiles with a warning; validation of a revoked pack warns", async () => {
  const deprecated = await compileText(withLine("status: active", "status: deprecated"));
  assertEquals(deprecated.ir?.pack_status, "deprecated");
  assertEquals(deprecated.messages, "status p.yaml:4: warning: the pack is deprecated");
  const routed = await compileText(withLine("default_severity: medium", "export_routes: [otlp, siem]"));
  assertEquals(routed.ir !== undefined, true);
  assert(
    routed.messages.includes('p.yaml:31: warning: there is no sink "siem"; use one of http, otlp'),
    routed.messages,
  );
  const { validation } = await compileText(withLine("status: active", "status: revoked"));
  assertEquals(validation.ok, true);
  assert(validation.diagnostics[0].message.includes("revoked: it cannot be installed"));
});
