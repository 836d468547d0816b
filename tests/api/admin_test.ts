import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

async function admin(...args: string[]): Promise<Outcome> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", fromRoot("main.ts"), "admin", ...args],
  }).output();
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

Deno.test("manifest generate and check print the report, and exit 1 when a file is not as it was", async () => {
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
  const shown = await admin("manifest", "check", path);
  assertEquals(shown.code, 1);
  assert(/NOT OK/.test(shown.stdout) && /rootfs\.erofs .* wrong hash/.test(shown.stdout), shown.stdout);
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
  [["manifest", "chekc", "x"], /did you mean "manifest check"\?/],
  [["nonsense"], /no command "nonsense"/],
  [["ca"], /sbx-admin ca needs to be told what to do\s+it can show, rotate/],
  [["ca", "frobnicate"], /sbx-admin ca can show, rotate/],
  [["manifest", "check"], /<manifest_path> is missing/],
  [["manifest", "check", "a", "b"], /no place for "b"/],
  [["manifest", "check", "a", "--jsn"], /did you mean --json\?/],
  [["manifest", "check", "a", "--json=yes"], /takes no value/],
  [["manifest", "generate", "a", "--version"], /--version needs a value/],
  [["image", "build", "a", "--arch", "x86_64", "--arch", "arm64"], /given twice/],
];

for (const [args, message] of USAGE) {
  Deno.test(`sbx-admin ${args.join(" ")} is refused with exit code 2`, async () => {
    const { code, stderr, stdout } = await admin(...args);
    assertEquals([code, stdout], [2, ""]);
    assert(message.test(stderr), stderr);
  });
}

Deno.test("help lists every command, and one when it is named", async () => {
  const all = await admin("--help");
  assertEquals(all.code, 0);
  for (const name of ["image build", "manifest generate", "manifest check"]) {
    assert(all.stdout.includes(name), name);
  }
  const one = await admin("manifest", "check", "--help");
  assert(one.stdout.includes("manifest check") && !one.stdout.includes("image build"));
});

Deno.test("image build names an unknown architecture and an unknown profile", async () => {
  const dir = await Deno.makeTempDir();
  const arch = await admin("image", "build", "--arch", "sparc", join(dir, "out"), "--json");
  assertEquals([arch.code, JSON.parse(arch.stdout).code], [1, "image.arch.invalid"]);
  const profile = await admin("image", "build", "--profile", "no-such", join(dir, "out"));
  assertEquals(profile.code, 1);
  assert(profile.stderr.includes('"no-such"'), profile.stderr);
  assertEquals(await Array.fromAsync(Deno.readDir(dir)), []);
  await Deno.remove(dir, { recursive: true });
});
