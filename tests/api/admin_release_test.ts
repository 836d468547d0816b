/** `sbx-admin release`, from a new workspace to a verified tree, as a person types it. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import type { Parsed } from "../helper/json.ts";

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

async function release(...args: string[]): Promise<Outcome> {
  const { code, stdout, stderr } = await runChild(Deno.execPath(), {
    args: ["run", "-A", "--quiet", fromRoot("main.ts"), "admin", "release", ...args],
    env: { SBX_RELEASE_TRUST_FILE: "", SBX_RELEASE_HMAC_KEY_FILE: "" },
  });
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: decode(stdout), stderr: decode(stderr) };
}

async function ok(...args: string[]): Promise<Parsed> {
  const { code, stdout, stderr } = await release(...args, "--json");
  assertEquals(code, 0, stderr);
  return JSON.parse(stdout);
}

Deno.test("a release from a new workspace to a verified tree; a changed file is found", async () => {
  const root = await Deno.makeTempDir();
  const [dir, out, profile] = ["workspace", "out", "mine/profile.toml"].map((name) => join(root, name));
  await Deno.mkdir(join(root, "mine"));
  await Deno.writeTextFile(profile, 'id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n');
  const { trust_file, hmac_key_file, key_id } = await ok("init", dir);
  await ok("add", dir, "1.0.0", "--profile", profile);
  const unsigned = await release("check", dir);
  assertEquals(unsigned.code, 1);
  assert(
    unsigned.stdout.includes("NOT OK manifest  assets/stable/1.0.0/manifest.json: not signed"),
    unsigned.stdout,
  );
  const refused = await release("publish", dir, out, "--json");
  assertEquals([refused.code, JSON.parse(refused.stdout).code], [1, "release.unverified"]);
  assertEquals((await ok("sign", dir)).keys, [key_id]);
  assertEquals((await ok("deprecate", dir, "1.0.0")).status, "deprecated");
  await ok("sign", dir);
  assertEquals((await ok("check", dir)).ok, true);
  assertEquals((await ok("publish", dir, out)).added.length, 5);
  const keys = ["--trust", trust_file, "--hmac-keys", hmac_key_file];
  const report = await ok("verify", out, ...keys);
  assertEquals([report.ok, report.releases], [true, [{
    channel: "stable",
    version: "1.0.0",
    status: "deprecated",
  }]]);
  const noKey = await release("verify", out, "--json");
  // Where root installed a trust document, that one is used, and does not know the key.
  assertEquals(noKey.code, 1, noKey.stdout);
  await Deno.writeTextFile(join(out, "assets/stable/1.0.0/mine.toml"), "changed");
  const bad = await release("verify", out, ...keys);
  assertEquals(bad.code, 1);
  assert(bad.stdout.includes("NOT OK profile   assets/stable/1.0.0/mine.toml"), bad.stdout);
  await Deno.remove(root, { recursive: true });
});

const WRONG: [string[], number, RegExp][] = [
  [["add", "DIR", "1.0.0"], 2, /nothing to add: give --package, --profile, --assets or --bundle/],
  [["add", "DIR", "1.0.0", "--package", "x.deb"], 2, /--package needs --sbom/],
  [["add", "DIR", "../../x", "--profile", "x"], 1, /invalid version "\.\.\/\.\.\/x"\s+must be a SemVer/],
  [
    ["add", "DIR", "1.0.0", "--channel", "../x", "--profile", "x"],
    1,
    /invalid channel "\.\.\/x"\s+a channel id is/,
  ],
  [["revoke", "DIR", "1.0.0"], 1, /there is no release 1\.0\.0 of channel "stable"/],
  [["sign", "NONE"], 1, /channels\.json is not there\s+sbx-admin release init/],
];

Deno.test("what a person types wrong gets an error that says what to do", async () => {
  const root = await Deno.makeTempDir();
  const dir = join(root, "workspace");
  await ok("init", dir);
  await Promise.all(WRONG.map(async ([args, code, message]) => {
    const outcome = await release(
      ...args.map((word) => word === "DIR" ? dir : word === "NONE" ? root : word),
    );
    assertEquals([outcome.code, outcome.stdout], [code, ""], args.join(" "));
    assert(message.test(outcome.stderr), outcome.stderr);
  }));
  assertEquals(
    [...Deno.readDirSync(root)].map(({ name }) => name),
    ["workspace"],
    "nothing is written elsewhere",
  );
  await Deno.remove(root, { recursive: true });
});
