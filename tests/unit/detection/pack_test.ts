/** Packs that are not right: every one is told with file, line and path, and none is taken. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { compileRead } from "../../../lib/detection/compile.ts";
import { packOf, readPack, validationOf } from "../../../lib/detection/pack/pack.ts";
import { diagnosticsOf } from "../../../lib/detection/problem.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

const GOOD = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.yaml"));
const GOOD_JSON = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.json"));
const GOOD_TOML = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.toml"));

/** What is said of a pack in a file of its own, and whether it compiles. */
async function compileText(text: string, name = "p.yaml", files: Record<string, string> = {}) {
  const dir = await Deno.makeTempDir();
  try {
    for (const [file, content] of Object.entries(files)) await Deno.writeTextFile(`${dir}/${file}`, content);
    await Deno.writeTextFile(`${dir}/${name}`, text);
    const read = await readPack(`${dir}/${name}`);
    const { ir, problems } = await compileRead(read);
    const said = diagnosticsOf(problems).map(({ path, message }) =>
      `${path} ${message.replaceAll(`${dir}/`, "")}`
    );
    return { ir, said: said.join("\n"), valid: validationOf(read, name) };
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
  ["a status that is none", withLine("status: active", "status: live"), "status p.yaml:4: must be one of"],
  ["an owner that is none", withLine("owner: user", "owner: me"), "owner p.yaml:5: must be one of"],
  [
    "a family that is none",
    withLine("  http:\n", "  htpt:\n"),
    'field_mapping.htpt p.yaml:8: unknown key; did you mean "http"?',
  ],
  [
    "a field that no event has",
    withLine("http.request.host", "http.request.hots"),
    "field_mapping.http.Host p.yaml:9: no http event has a field http.request.hots; did you mean http.request.host?",
  ],
  [
    "a field of another family",
    withLine("http.request.host", "dns.request.qname"),
    "field_mapping.http.Host p.yaml:9: dns.request.qname is a field of another family",
  ],
  [
    "a field that is a map",
    withLine("http.request.host", "http.request.headers"),
    "http.request.headers is a map",
  ],
  [
    "mappings that differ in case",
    withLine("    Method: http", "    HOST: http.request.url\n    Method: http"),
    'differs from "Host" in nothing but its case',
  ],
  [
    "no mapping",
    withLine("  http:\n    Host: http.request.host\n    Method: http.request.method\n", "  {}\n"),
    "field_mapping p.yaml:7: a sigma source needs a field_mapping",
  ],
  [
    "no source",
    GOOD.replace(/sources:[\s\S]*findings:/, "sources: []\nfindings:"),
    "sources p.yaml:11: must be at least 1 elements",
  ],
  [
    "a sigma source in JSON",
    withLine("format: yaml", "format: json"),
    "sources[0].format p.yaml:14: a sigma source is yaml",
  ],
  [
    "a source without content",
    GOOD.replace(/ {4}content:[\s\S]*findings:/, "findings:"),
    "a source has content, a path or a url",
  ],
  [
    "a severity that is none",
    withLine("default_severity: medium", "default_severity: severe"),
    "findings.default_severity p.yaml:31: must be one of",
  ],
  [
    "a key twice",
    withLine("owner: user", "owner: user\nowner: corp"),
    'p.yaml:6: the key "owner" stands here twice, first on line 5',
  ],
  [
    "a key twice in the rule",
    withLine("      status: stable", "      status: stable\n      status: test"),
    'sources[0].content p.yaml:19: the key "status" stands here twice, first on line 3',
  ],
  ["a tab", withLine("  http:\n", "\thttp:\n"), "p.yaml:8: a tab indents this line"],
  ["a tag", withLine("owner: user", "owner: !!str user"), "p.yaml:5: the tag !!str has no meaning here"],
  [
    "a tag that constructs",
    withLine("owner: user", "owner: !!python/object:os.system user"),
    "p.yaml:5: the tag",
  ],
  ["an alias", withLine("owner: user", "owner: &o user\nextra: *o"), "p.yaml:5: an anchor"],
  ["two documents", `${GOOD}---\n${GOOD}`, "p.yaml:36: a second YAML document begins here"],
  ["a directive", `%YAML 1.1\n---\n${GOOD}`, "p.yaml:1: a YAML directive"],
  [
    "a wildcard in the rule",
    withLine("Host: api.github.com", "Host: '*.github.com'"),
    "sources[0].content p.yaml:24: Host: the wildcard *",
  ],
  ["no YAML", "{[", "p.yaml:1: not YAML"],
  ["nothing", "", "p.yaml:1: the text is empty"],
  ["a list", "- a\n", "p.yaml:1: must be a table"],
  ["text", "pack\n", "p.yaml:1: must be a table"],
];

Deno.test("bad packs: each is refused with its place", async (t) => {
  for (const [what, text, expected] of BAD) {
    await t.step(what, async () => {
      const { ir, said } = await compileText(text);
      assertEquals(ir, undefined);
      assert(said.includes(expected), said);
    });
  }
});

Deno.test("lines of a rule within JSON and TOML are told as well as they can be", async () => {
  const wildcard = (text: string) => text.replace("api.github.com", "'*.github.com'");
  assert((await compileText(wildcard(GOOD_TOML), "p.toml")).said.includes("sources[0].content p.toml:25: "));
  // In JSON all of the text is one line.
  const json = await compileText(wildcard(GOOD_JSON), "p.json");
  const line = GOOD_JSON.split("\n").findIndex((text) => text.includes('"content"')) + 1;
  assert(json.said.includes(`p.json:${line}: Host: the wildcard`), json.said);
  assert(
    (await compileText(GOOD_JSON.replace("{", '{"owner": "corp",'), "p.json")).said.includes(
      "stands here twice",
    ),
  );
  assert((await compileText(GOOD_JSON.slice(0, -30), "p.json")).said.includes("not JSON"));
  assert((await compileText("a = 1\na = 2\n", "p.toml")).said.includes("p.toml:2: "));
});

Deno.test("an alias bomb, deep nesting and a 10 MB pack end at once", async () => {
  const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
  for (let at = 1; at < 12; at++) {
    const [name, below] = [String.fromCharCode(97 + at), String.fromCharCode(96 + at)];
    bomb.push(`${name}: &${name} [${Array(9).fill(`*${below}`).join(", ")}]`);
  }
  assert((await compileText(bomb.join("\n"))).said.includes("p.yaml:1: an anchor"));
  assert((await compileText("[".repeat(200_000))).said.includes("nested deeper"));
  assert(
    (await compileText("[".repeat(200_000) + "]".repeat(200_000), "p.json")).said.includes("nested deeper"),
  );
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/p.yaml`, GOOD + "# ".padEnd(10_000_000, "x"));
  const error = await assertRejects(() => readPack(`${dir}/p.yaml`), SbxError);
  assertEquals(error.code, "detection.too_large");
  await Deno.remove(dir, { recursive: true });
  // Neither as data: a request may be that long.
  const pack = JSON.parse(GOOD_JSON);
  pack.sources[0].content += "# ".padEnd(5_000_000, "x");
  assertEquals(packOf(pack).pack, undefined);
});

Deno.test("sources: a file beside the pack, and nothing else of the disk", async () => {
  const rule = GOOD.match(/content: \|\n([\s\S]*?)findings:/)![1].replace(/^ {6}/gm, "");
  const source = (extra: string) => GOOD.replace(/ {4}content:[\s\S]*findings:/, `${extra}findings:`);
  const good = await compileText(
    source(`    path: rule.yml\n    hash: "blake3:${blake3(rule)}"\n`),
    "p.yaml",
    { "rule.yml": rule },
  );
  assertEquals(good.said, "");
  assertEquals(good.ir?.rules.length, 1);
  const bad: [string, string][] = [
    [`    path: rule.yml\n    hash: "blake3:${"0".repeat(64)}"\n`, "the source is not what its hash says"],
    ["    path: ../rule.yml\n", "must be a path below the pack's folder"],
    ["    path: /etc/passwd\n", "must be a path below the pack's folder"],
    ["    path: missing.yml\n", "cannot be read"],
    [
      "    url: https://rules.example/rule.yml\n",
      "a source that is only at https://rules.example/rule.yml does not compile",
    ],
    [
      "    path: rule.yml\n    signature_url: https://rules.example/rule.sig\n",
      "sbx does not check signatures",
    ],
    ["    path: rule.yml\n    content: x\n", "a source has content or a path, not both"],
  ];
  for (const [extra, expected] of bad) {
    const { ir, said } = await compileText(source(extra), "p.yaml", { "rule.yml": rule });
    assertEquals(ir, undefined);
    assert(said.includes(expected), said);
  }
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/outside.yml`, rule);
  await Deno.mkdir(`${dir}/pack`);
  await Deno.symlink(`${dir}/outside.yml`, `${dir}/pack/rule.yml`);
  await Deno.writeTextFile(`${dir}/pack/p.yaml`, source("    path: rule.yml\n"));
  const { problems } = await compileRead(await readPack(`${dir}/pack/p.yaml`));
  assert(problems[0].message.includes("leads out of the pack's folder"));
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a mistake in a source's own file is told with that file and line", async () => {
  const text = GOOD.replace(/ {4}content:[\s\S]*findings:/, "    path: rule.yml\nfindings:");
  const rule =
    "title: x\nlogsource: {product: sbx, category: http}\ndetection:\n  s:\n    Host|contains: x\n  condition: s\n";
  const { said } = await compileText(text, "p.yaml", { "rule.yml": rule });
  assert(said.startsWith("sources[0].path rule.yml:5: Host|contains: the modifier"), said);
});

Deno.test("IR as a source: its own pack's, strict, and with the pack's source id", async () => {
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
      [{ ...ir, pack_version: "2" }, "the IR is of sbx.minimal 2, not of sbx.minimal 1.0.0"],
      [{ ...ir, rules: [{ ...ir.rules[0], event_family: "dns" }] }, "is a field of another family"],
      [
        { ...ir, rules: [{ ...ir.rules[0], matchers: [{ ...ir.rules[0].matchers[0], values: [1] }] }] },
        "http.request.host is a string",
      ],
      [{ ...ir, rules: [ir.rules[0], ir.rules[0]] }, '"github-upload" stands twice'],
    ] as const
  ) {
    const { ir: compiled, problems } = await pack(content);
    assertEquals(compiled, undefined);
    assert(problems.some(({ message }) => message.includes(expected)), JSON.stringify(problems));
  }
});

Deno.test("several rules of one source: ids of their own, and none twice", async () => {
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

Deno.test("a deprecated pack compiles with a warning; a revoked one says that it does not install", async () => {
  const deprecated = await compileText(withLine("status: active", "status: deprecated"));
  assertEquals(deprecated.ir?.pack_status, "deprecated");
  assertEquals(deprecated.said, "status p.yaml:4: warning: the pack is deprecated");
  const routed = await compileText(withLine("default_severity: medium", "export_routes: [otlp, siem]"));
  assertEquals(routed.ir !== undefined, true);
  assert(
    routed.said.includes('p.yaml:31: warning: no sink is called "siem"; there is http, otlp'),
    routed.said,
  );
  const { valid } = await compileText(withLine("status: active", "status: revoked"));
  assertEquals(valid.ok, true);
  assert(valid.diagnostics[0].message.includes("revoked: it does not install"));
});
