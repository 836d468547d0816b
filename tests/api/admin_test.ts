import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

async function admin(...args: string[]): Promise<Outcome> {
  const { code, stdout, stderr } = await runChild(Deno.execPath(), {
    args: ["run", "-A", "--quiet", fromRoot("main.ts"), "admin", ...args],
  });
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: decode(stdout), stderr: decode(stderr) };
}

async function assetsDir(): Promise<string> {
  const dir = await Deno.makeTempDir();
  await Deno.mkdir(join(dir, "arm64"));
  for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs"]) {
    await Deno.writeTextFile(join(dir, "arm64", name), name);
  }
  return dir;
}

Deno.test("manifest generate and check print the report, and exit with 1 when a file has changed", async () => {
  const dir = await assetsDir();
  const made = await admin("manifest", "generate", dir, "--version", "2026.0102.3", "--json");
  assertEquals(made.code, 0, made.stderr);
  const report = JSON.parse(made.stdout);
  assertEquals([report.schema, report.ok, report.asset_version], [
    "sbx.admin.manifest_report.v1",
    true,
    "2026.0102.3",
  ]);
  assertEquals(report.arches[0].assets.length, 3);
  const path = join(dir, "manifest.json");
  assertEquals(JSON.parse((await admin("manifest", "check", path, "--json")).stdout), report);

  await Deno.writeTextFile(join(dir, "arm64/rootfs.erofs"), "ROOTFS.erofs");
  const bad = await admin("manifest", "check", path, "--json");
  assertEquals([bad.code, JSON.parse(bad.stdout).ok], [1, false]);
  const table = await admin("manifest", "check", path);
  assertEquals(table.code, 1);
  assert(/NOT OK/.test(table.stdout) && /rootfs\.erofs .* wrong hash/.test(table.stdout), table.stdout);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("manifest check refuses a manifest from which no VM boots, and names the part", async () => {
  const dir = await assetsDir();
  const path = join(dir, "manifest.json");
  assertEquals((await admin("manifest", "generate", dir)).code, 0);
  const manifest = JSON.parse(await Deno.readTextFile(path));
  delete manifest.assets.releases[manifest.assets.current].arches.arm64.vmlinuz;
  await Deno.writeTextFile(path, JSON.stringify(manifest));
  const { code, stdout, stderr } = await admin("manifest", "check", path);
  assertEquals([code, stdout], [1, ""]);
  assert(
    stderr.includes("arm64: no VM boots without vmlinuz") && stderr.includes("missing here: vmlinuz"),
    stderr,
  );
  await Deno.remove(dir, { recursive: true });
});

Deno.test("an invalid manifest is an error with code and message, as text and as JSON", async () => {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "manifest.json");
  await Deno.writeTextFile(path, '{"format": 2}');
  const json = await admin("manifest", "check", path, "--json");
  assertEquals([json.code, JSON.parse(json.stdout).code], [1, "manifest.invalid"]);
  const text = await admin("manifest", "check", path);
  assertEquals([text.code, text.stdout], [1, ""]);
  assert(text.stderr.startsWith("sbx-admin: ") && text.stderr.includes(path), text.stderr);
  assert(!text.stderr.includes("ZodError"));
  await Deno.remove(dir, { recursive: true });
});

const USAGE: [string[], RegExp][] = [
  [["manifest", "chekc", "x"], /unknown subcommand "chekc".*\s+did you mean "sbx-admin manifest check"\?/],
  [["nonsense"], /unknown command "nonsense"\s+sbx-admin --help lists the commands/],
  [["polcy"], /did you mean "sbx-admin policy"\?/],
  [["ca"], /sbx-admin ca needs a subcommand: show, rotate\s+see sbx-admin ca --help/],
  [["ca", "frobnicate"], /unknown subcommand "frobnicate"; one of show, rotate/],
  [["manifest", "check"], /missing argument: sbx-admin manifest check MANIFEST/],
  [["manifest", "check", "a", "b"], /unexpected argument "b"/],
  [["manifest", "check", "a", "--jsn"], /unknown option --jsn.*\s+did you mean "--json"\?/],
  [["manifest", "check", "a", "--json=yes"], /--json takes no value/],
  [["manifest", "generate", "a", "--version"], /--version needs a value/],
  [["detection", "backtest", "p"], /missing option --events FILE\s+see sbx-admin detection backtest --help/],
  [["detection", "backtest", "p", "--events", "e", "--limit", "x"], /invalid value "x" of --limit/],
  [["image", "build", "a", "--arch", "x86_64", "--arch", "arm64"], /--arch may be given only once/],
];

for (const [args, message] of USAGE) {
  Deno.test(`sbx-admin ${args.join(" ")} is rejected with exit code 2`, async () => {
    const { code, stderr, stdout } = await admin(...args);
    assertEquals([code, stdout], [2, ""]);
    assert(message.test(stderr), stderr);
  });
}

Deno.test("help lists every command, or shows a group or a command", async () => {
  const all = await admin("--help");
  assertEquals(all.code, 0);
  for (const name of ["image build", "manifest generate", "manifest check"]) {
    assert(all.stdout.includes(name), name);
  }
  const group = await admin("manifest", "--help");
  assert(group.stdout.startsWith("sbx-admin manifest SUBCOMMAND\n"), group.stdout);
  assert(group.stdout.includes("manifest check MANIFEST") && !group.stdout.includes("image build"));
  const one = await admin("manifest", "generate", "--help");
  assertEquals([group.code, one.code], [0, 0]);
  assert(one.stdout.startsWith("sbx-admin manifest generate ASSETS_DIR"), one.stdout);
  assert(one.stdout.includes("--version VERSION") && !one.stdout.includes("manifest check"));
  const none = await admin();
  assertEquals([none.code, none.stdout], [2, all.stdout]);
});

Deno.test("image build names an unknown architecture and an unknown profile", async () => {
  const dir = await Deno.makeTempDir();
  const arch = await admin("image", "build", "--arch", "sparc", join(dir, "out"), "--json");
  assertEquals([arch.code, JSON.parse(arch.stdout).code], [1, "arch.invalid"]);
  const profile = await admin("image", "build", "--profile", "no-such", join(dir, "out"));
  assertEquals(profile.code, 1);
  assert(profile.stderr.includes('"no-such"'), profile.stderr);
  assertEquals(await Array.fromAsync(Deno.readDir(dir)), []);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("profile validate reads the rule files and packs that a profile names", async () => {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "mine", "profile.toml");
  const validate = async (text: string) => {
    await Deno.mkdir(join(dir, "mine"), { recursive: true });
    await Deno.writeTextFile(path, `id = "mine"\nname = "M"\ndescription = ""\nrevision = "1.0.0"\n${text}`);
    const { code, stdout } = await admin("profile", "validate", path, "--json");
    const { ok, problems } = JSON.parse(stdout);
    assertEquals([code, ok], problems.length ? [1, false] : [0, true]);
    return problems as string[];
  };
  assertEquals(await validate(""), []);
  const files = '[rule_files]\nenforcement = "rules.toml"\nsigma = "pack.yaml"\n';
  assertEquals(await validate(files), [
    `${path}:5: cannot read the rule file ${join(dir, "mine", "rules.toml")}`,
    `${path}:1: ${join(dir, "mine", "pack.yaml")}: cannot be read`,
  ]);
  const broken = '[profiles.rules.a]\naction = "block"\nmatch = "http.request.hots == 1"\n';
  const [problem] = await validate(broken);
  assert(problem.startsWith(`${path}:7: profile rule "a": unknown field http.request.hots`), problem);
  await Deno.writeTextFile(join(dir, "mine", "rules.toml"), broken);
  const [inFile] = await validate('[rule_files]\nenforcement = "rules.toml"\n');
  assert(inFile.startsWith(`${join(dir, "mine", "rules.toml")}:3: `), inFile);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a file that the call names and that is not there is named, without a stack", async () => {
  const dir = await Deno.makeTempDir();
  const [corp, trust] = [join(dir, "corp.toml"), join(dir, "release-trust.json")];
  await Deno.writeTextFile(corp, `[settings."app.auto_update"]\nvalue = false\n`);
  const call = ["package", "corp", "--manifest-url", "https://sbx.example.com/manifest.json", "--out", dir];
  const rest = ["--name", "sbx-a", "--version", "1.0", "--maintainer", "a <a@example.com>", "--corp", corp];
  const { code, stderr } = await admin(...call, ...rest, "--release-trust", trust);
  assertEquals([code, stderr], [1, `sbx-admin: there is no file or folder ${trust}\n  check the path\n`]);
  await Deno.remove(dir, { recursive: true });
});
