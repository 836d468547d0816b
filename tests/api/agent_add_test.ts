/** sbx agent add, sign and remove: the real CLI, with its confirmation and the limits of corp. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { BUILTIN_PROFILES } from "../../lib/config/profile/mod.ts";
import { formatTrust, generateSigningKey, parseSigningKey } from "../../lib/release/mod.ts";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const OURS = BUILTIN_PROFILES.get("pi")!.replace('id = "pi"', 'id = "ours"');

/** A home without processes, with an agent, its author's key and the trust document of it. */
async function makePlace() {
  const dir = await Deno.makeTempDir();
  const at = (name: string) => join(dir, name);
  const pem = await generateSigningKey();
  await Deno.writeTextFile(at("author.pem"), pem, { mode: 0o600 });
  const { publicKey } = await parseSigningKey(pem, "author.pem");
  await Deno.writeTextFile(at("trust.json"), formatTrust([publicKey]));
  await Deno.writeTextFile(at("ours.toml"), OURS);
  const run = async (args: string[], env: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), {
      args: ["agent", ...args],
      env: { SBX_HOME: at("home"), ...env },
    });
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, stdout: text(stdout), stderr: text(stderr) };
  };
  const stored = () => Deno.readTextFile(at("home/profiles/ours/profile.toml")).catch(() => undefined);
  return {
    at,
    run,
    stored,
    key: publicKey.id,
    [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }),
  };
}

Deno.test("a signed agent is shown, stored after a confirmation, and an update shows its lines alone", async () => {
  await using place = await makePlace();
  const { at, run, stored } = place;
  const sign = ["sign", at("ours.toml"), "--key", at("author.pem"), "--out", at("ours.json")];
  const signed = await run([...sign, "--trust-out", at("written.json")]);
  assertEquals(signed.code, 0, signed.stderr);
  // The author gives this document to others by another way than the file.
  assertEquals(await Deno.readTextFile(at("written.json")), await Deno.readTextFile(at("trust.json")));
  assertStringIncludes(signed.stdout, `--trust ${at("written.json")}`);
  const asked = await run(["add", at("ours.json"), "--trust", at("trust.json")]);
  assertEquals(asked.code, 2, asked.stderr);
  assertStringIncludes(asked.stderr, "api.anthropic.com");
  assertStringIncludes(asked.stderr, "@earendil-works/pi-coding-agent@1.6.0");
  assertStringIncludes(asked.stderr, place.key);
  assertEquals(await stored(), undefined, "nothing before the confirmation");
  const added = await run(["add", at("ours.json"), "--trust", at("trust.json"), "--yes", "--json"]);
  assertEquals(JSON.parse(added.stdout).signed_by, [place.key], added.stderr);
  assertEquals(await stored(), OURS);

  await Deno.writeTextFile(at("ours.toml"), OURS.replace("pi.dev", "pi.example\\u001b[2J"));
  assertEquals((await run(sign)).code, 1, "no host is such a text");
  await Deno.writeTextFile(at("ours.toml"), OURS.replace("ram_gb = 2", "ram_gb = 4"));
  assertEquals((await run(sign)).code, 0);
  const changed = await run(["add", at("ours.json"), "--trust", at("trust.json"), "--yes"]);
  assertEquals(changed.stderr.split("\n").filter((line) => /^[-+] /.test(line)), [
    "- ram_gb = 2",
    "+ ram_gb = 4",
  ]);
  const { agents } = JSON.parse((await run(["list", "--json"])).stdout);
  const own = agents.find(({ id }: { id: string }) => id === "ours");
  assertEquals([own.origin.signed_by, own.origin.source], [[place.key], at("ours.json")]);
});

Deno.test("an agent without a signature needs --unsigned, and one of a stranger is refused", async () => {
  await using place = await makePlace();
  const { at, run, stored } = place;
  const plain = await run(["add", at("ours.toml"), "--yes"]);
  assertEquals(plain.code, 1);
  assertMatch(plain.stderr, /not signed[^]*--unsigned/);
  await run(["sign", at("ours.toml"), "--key", at("author.pem"), "--out", at("ours.json")]);
  assertMatch((await run(["add", at("ours.json"), "--yes", "--unsigned"])).stderr, /none of them trusted/);
  assertEquals((await run(["add", "http://agents.example.com/x", "--yes"])).code, 1);
  assertEquals((await run(["add", at("none.toml"), "--yes"])).code, 1);
  assertEquals(await stored(), undefined);
  assertEquals((await run(["add", at("ours.toml"), "--yes", "--unsigned"])).code, 0);
  assertEquals(await stored(), OURS);
});

Deno.test("an agent is fetched from an https address, and its signature decides there too", async () => {
  await using place = await makePlace();
  const { at, run, stored } = place;
  await run(["sign", at("ours.toml"), "--key", at("author.pem"), "--out", at("ours.json")]);
  const files = new Map<string, string>();
  files.set("/ours.json", await Deno.readTextFile(at("ours.json")));
  // With the author's signature of the other one.
  const payload = new TextEncoder().encode(OURS.replace("ram_gb = 2", "ram_gb = 8")).toBase64();
  files.set("/changed.json", JSON.stringify({ ...JSON.parse(files.get("/ours.json")!), payload }));
  const world = await TestUpstreams.make(["localhost"], ({ url }) => {
    const text = files.get(new URL(url).pathname);
    return new Response(text ?? "", { status: text === undefined ? 404 : 200 });
  });
  try {
    const port = world.overrides[0].split(":").at(-1);
    const add = (path: string) =>
      run(["add", `https://localhost:${port}${path}`, "--trust", at("trust.json"), "--yes"], {
        DENO_CERT: world.caFile,
      });
    assertMatch((await add("/none.json")).stderr, /there is no agent at https:\/\/localhost/);
    assertMatch((await add("/changed.json")).stderr, /signature/);
    assertEquals(await stored(), undefined);
    const added = await add("/ours.json");
    assertEquals([added.code, await stored()], [0, OURS], added.stderr);
    assertStringIncludes(added.stderr, `from https://localhost:${port}/ours.json`);
  } finally {
    await world.close();
  }
});

Deno.test("corp names the keys and the profiles: nothing else is added", async () => {
  await using place = await makePlace();
  const { at, run, stored } = place;
  const corp = { SBX_CORP_CONFIG: at("corp.toml") };
  await run(["sign", at("ours.toml"), "--key", at("author.pem"), "--out", at("ours.json")]);
  await Deno.writeTextFile(at("corp.toml"), '[release]\ntrust_file = "trust.json"\n');
  for (const more of [[at("ours.toml"), "--unsigned"], [at("ours.json"), "--trust", at("trust.json")]]) {
    assertMatch((await run(["add", ...more, "--yes"], corp)).stderr, /corp names/);
  }
  await Deno.writeTextFile(at("corp.toml"), '[corp.limits]\nprofiles = ["code"]\n');
  const limited = await run(["add", at("ours.toml"), "--unsigned", "--yes"], corp);
  assertMatch(limited.stderr, /corp does not allow/);
  await Deno.writeTextFile(at("corp.toml"), "[corp");
  assert((await run(["add", at("ours.toml"), "--unsigned", "--yes"], corp)).code !== 0, "it fails closed");
  assertEquals(await stored(), undefined);
  await Deno.writeTextFile(at("corp.toml"), '[release]\ntrust_file = "trust.json"\n');
  assertEquals((await run(["add", at("ours.json"), "--yes"], corp)).code, 0);
  assertEquals(await stored(), OURS);
});
