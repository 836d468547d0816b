/** `SBX_LOG` in every role (docs/design/contracts/01-homes.md §1). */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { limitChild, runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Typed in place of a name by mistake. */
const KEY = "ghp_k9Xw2Qm7Lr5Tz8Yb3Nc6Vd1Fg4Hj0Ks2Pa7Q";
const EXPLAIN = /^\S+Z debug GET \/settings\/explain\/\{\w+\} 404$/m;

Deno.test("with SBX_LOG=debug CLI, service and gateway log each request, without the token", async () => {
  const dir = await Deno.makeTempDir();
  const env = { SBX_HOME: dir, SBX_GATEWAY_PORT: "0", SBX_LOG: "debug" };
  const sbx = (...args: string[]) => runChild(fromRoot("bin/sbx"), { args, env });
  try {
    const started = await sbx("start");
    assertEquals(started.code, 0, decode(started.stderr));
    const { stderr } = await sbx("settings", "explain", KEY);
    assertMatch(decode(stderr), EXPLAIN);
    assert(!decode(stderr).split("\n").some((line) => line.includes(" debug ") && line.includes(KEY)));
    const port = (await Deno.readTextFile(join(dir, "run/gateway.port"))).trim();
    const token = (await Deno.readTextFile(join(dir, "run/gateway.token"))).trim();
    const events = await fetch(`http://127.0.0.1:${port}/events?token=${token}`);
    await events.body?.cancel();
    const logs = await Promise.all(
      ["service", "gateway"].map((role) => Deno.readTextFile(join(dir, `logs/${role}.log`))),
    );
    for (const text of logs) assertMatch(text, EXPLAIN);
    assertMatch(logs[0], /^\S+Z debug settings\.not_found$/m);
    assertStringIncludes(logs[1], "/events ");
    assert(!logs.join().includes(token) && !logs.join().includes(KEY));
  } finally {
    await sbx("stop");
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("the gateway writes no secret into its log", async () => {
  const { code, stderr } = await runChild(fromRoot("bin/sbx-gateway"), { args: ["--port", KEY] });
  assertEquals(code, 2);
  assertStringIncludes(decode(stderr), "invalid port");
  assert(!decode(stderr).includes(KEY), decode(stderr));
});

Deno.test("the aggregator logs the methods of requests, with the level of its parent", async () => {
  const child = limitChild(
    new Deno.Command(fromRoot("bin/sbx-mcp-aggregator"), {
      env: { SBX_LOG: "debug" },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn(),
  );
  const stdin = child.stdin.getWriter();
  await stdin.write(new TextEncoder().encode('[]\n{"id":1,"method":"shutdown"}\n'));
  await stdin.close();
  assertMatch(decode((await child.output()).stderr), /Z debug sbx-mcp-aggregator: request shutdown\n/);
});

for (
  const [role, ...args] of [
    ["sbx", "version"],
    ["sbx-admin", "help"],
    ["sbx-gateway", "--help"],
    ["sbx-service"],
    ["sbx-process"],
    ["sbx-mcp-aggregator", "--help"],
    ["sbx-mcp", "--version"],
  ]
) {
  Deno.test(`${role} reports an SBX_LOG that is no level`, async () => {
    // No home can be there, so that the service does not start.
    const env = { SBX_LOG: "verbose", SBX_HOME: "/dev/null/home" };
    const { stderr } = await runChild(fromRoot(`bin/${role}`), { args, env });
    const said = decode(stderr).match(/SBX_LOG="verbose" is not a log level: info applies/g);
    assertEquals(said?.length, 1, decode(stderr));
  });
}
