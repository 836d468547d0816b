/**
 * A raw connection that is refused ends in the words of its protocol: its client shows the rule, not a reset.
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { errorPacket } from "../../../lib/network/database/mysql_packet.ts";
import { runChild } from "../../helper/child.ts";
import { TestNet } from "../../helper/net.ts";

const RULES = `[profiles.rules.no]
name = "no"
action = "block"
reason = "not from here"
match = 'http.request.scheme == "tcp"'
`;
const ASK = `[profiles.rules.ask]
name = "ask"
action = "ask"
reason = "someone looks first"
match = 'http.request.scheme == "tcp"'
`;
const LINE = 'blocked by policy: not from here (rule "no"); ask your user';

/** Programs and the port of their server; PORT is the one that leads there. */
const CLIENTS: [name: string, port: number, argv: string[]][] = [
  [
    "ssh",
    22,
    [
      "ssh",
      "-F",
      "none",
      "-p",
      "PORT",
      "-o",
      "BatchMode=yes",
      "-o",
      "UserKnownHostsFile=/dev/null",
      "me@127.0.0.1",
    ],
  ],
  ["git over SSH", 22, ["git", "ls-remote", "ssh://git@127.0.0.1:PORT/me/app.git"]],
  ["psql", 5432, ["psql", "host=127.0.0.1 port=PORT user=me dbname=x sslmode=prefer", "-c", "select 1"]],
  ["psql with TLS", 5432, [
    "psql",
    "host=127.0.0.1 port=PORT user=me dbname=x sslmode=require",
    "-c",
    "select 1",
  ]],
  ["psql without TLS", 5432, [
    "psql",
    "host=127.0.0.1 port=PORT user=me dbname=x sslmode=disable",
    "-c",
    "select 1",
  ]],
  ["mysql", 3306, ["mysql", "-h", "127.0.0.1", "-P", "PORT", "-u", "me", "-e", "select 1"]],
  ["redis-cli", 6379, ["redis-cli", "-h", "127.0.0.1", "-p", "PORT", "get", "x"]],
];

async function run(net: TestNet, port: number, argv: string[]): Promise<{ code: number; text: string }> {
  const forward = net.forward(port);
  const [program, ...args] = argv.map((word) => word.replace("PORT", String(forward.port)));
  const env = { PATH: Deno.env.get("PATH")!, HOME: net.dir, GIT_TERMINAL_PROMPT: "0" };
  const { code, stdout, stderr } = await runChild(program, { args, env, clearEnv: true }).finally(() =>
    forward.close()
  );
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

for (const [name, port, argv] of CLIENTS) {
  Deno.test(`${name} shows the rule that refuses its connection`, async () => {
    await using net = await TestNet.open({ rules: RULES, timeouts: { silence: 200 } });
    const { code, text } = await run(net, port, argv);
    // redis-cli ends with 0 after an error of its server.
    assertStringIncludes(text, LINE);
    if (name !== "redis-cli") assertEquals(code === 0, false, text);
    await net.idle();
  });
}

Deno.test("a client of MySQL that waits for a person is answered before it gives up, and comes in after a yes", async () => {
  const server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const greet = async () => {
    for await (const conn of server) {
      await conn.write(errorPacket(0, 1040, "08004", "of the server"));
      conn.close();
    }
  };
  const greeting = greet();
  const target = () => ({ hostname: "127.0.0.1", port: server.addr.port });
  await using net = await TestNet.open({ rules: ASK, timeouts: { silence: 50, greeting: 100 }, target });
  const mysql = ["mysql", "-h", "127.0.0.1", "-P", "PORT", "-u", "me", "-e", "select 1"];
  const { text } = await run(net, 3306, mysql);
  assertMatch(
    text,
    /waits for approval by policy: someone looks first \(rule "ask"\); .*ask-\S+ yet: try again/,
  );
  const [{ ask_id }] = net.gate.asks.pending();
  net.gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
  assertStringIncludes((await run(net, 3306, mysql)).text, "of the server");
  server.close();
  await greeting;
});
