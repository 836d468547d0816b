/**
 * A key that a person puts into a command line by mistake: the CLI does not repeat it to screen, log or list.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { KEY } from "../../helper/credential.ts";
import { Place } from "../../api/cli_harness.ts";
import { type CallResult, runCalls } from "../../helper/cli_calls.ts";

const RANDOM = "Zx8kQ2mN7pR4sT9vW1yB";
/** Calls with a key for `@` and a folder with a Dockerfile for `FOLDER`, some of which need a service. */
const CALLS = [
  ["@"],
  ["list", "@"],
  ["info", "demo", "@"],
  ["exec", "demo", "@", "-x"],
  ["start", "@"],
  ["settings", "@"],
  ["settings", "set", "@", "true"],
  ["credentials", "@"],
  ["credentials", "add", "@"],
  ["credentials", "add", "anthropic", "@"],
  ["credentials", "add", "anthropic", "--@"],
  ["credentials", "add", "anthropic", "--@=1"],
  ["credentials", "add", "mcp", "--hots", "@"],
  ["credentials", "revoke", "@"],
  ["credentials", "revoke", "credential:blake3:@"],
  ["credentials", "audit", "--limit", "@"],
  ["credentials", "audit", "--ref", "@"],
  ["logs", "--json", "@", "@"],
  ["mcp", "call", "@"],
  ["image", "build", "FOLDER", "--secret", "id=npm,src=@"],
  ["image", "build", "FOLDER", "--tag", "x:1", "--login", "registry=ghcr.io,user=me,ref=@"],
  ["image", "build", "FOLDER", "--tag", "x:1", "--secret", "id=npm,ref=@"],
  ["image", "build", "FOLDER", "--tag", "x:1", "--secret", "id=@,src=file"],
];

Deno.test("no error of a command repeats a key among its arguments", async () => {
  await using place = await Place.make();
  const folder = join(place.dir, "context");
  await Deno.mkdir(folder);
  await Deno.writeTextFile(join(folder, "Dockerfile"), "FROM scratch\n");
  const keys = [KEY.anthropic, RANDOM];
  const argsOf = (call: string[], key: string) =>
    call.map((word) => word.replace("@", key).replace("FOLDER", folder));
  const requireHidden = (args: string[], key: string, { code, stdout, stderr }: CallResult) => {
    assert(code !== 0, args.join(" "));
    assert(stderr !== "", args.join(" "));
    assert(!(stdout + stderr).includes(key.slice(3, -3)), `${args.join(" ")}: ${stdout}${stderr}`);
  };
  // The program itself once for each key; it starts the gateway that the other calls use.
  for (const key of keys) {
    const args = argsOf(["info", "demo", "@"], key);
    requireHidden(args, key, await place.sbx(args, { stdin: "" }));
  }
  const { stderr } = await place.sbx(["info", "demo", "two words"]);
  assertEquals(stderr.includes("two words"), true, "other words are named");
  const calls = keys.flatMap((key) => CALLS.map((call) => ({ key, args: argsOf(call, key) })));
  const results = await runCalls(calls.map(({ args }) => ["sbx", ...args]), {
    PATH: Deno.env.get("PATH")!,
    ...place.env,
  });
  calls.forEach(({ key, args }, at) => requireHidden(args, key, results[at]));
});
