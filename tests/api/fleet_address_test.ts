/** `sbx-admin fleet serve` refuses an address before it makes or serves anything, and shows no secret of it. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

const REF = `credential:blake3:${"0".repeat(64)}`;
const REFUSED: string[][] = [
  ["--from", "tls://user:s3cret@nats.example.com"],
  ["--from", "clickhouse://user:s3cret@ch.example.com"],
  ["--from", "clickhouse://user:pa/s3cret@ch.example.com"],
  ["--from", "libsql://user:s3cret@db.example.com"],
  ["--from", "libsql://db.example.com?authToken=s3cret"],
  ["--from", "https://user:s3cret@fleet.example.com"],
  ["--from", "nats://nats.example.com", "--credential", REF],
  ["--clickhouse", "clickhouse://user:s3cret@ch.example.com"],
  ["--clickhouse", "clickhouse://ch.example.com?password=s3cret"],
  ["--clickhouse", "https://user:s3cret@ch.example.com"],
];

Deno.test("fleet serve: a bad address is refused before it listens, without its secret", async () => {
  const home = await Deno.makeTempDir();
  try {
    await Promise.all(REFUSED.map(async (options, at) => {
      const dir = join(home, `store-${at}`);
      const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx-admin"), {
        args: ["fleet", "serve", dir, ...options],
        env: { SBX_HOME: join(home, "sbx"), NO_COLOR: "1" },
      });
      const text = new TextDecoder().decode(stderr);
      assertMatch(text, /is not the address of|cannot read from|without TLS/, options.join(" "));
      assert(!text.includes("s3cret"), text);
      assertEquals([code, stdout.length], [1, 0], text);
      assertEquals(await Deno.stat(dir).then(() => true, () => false), false, options.join(" "));
    }));
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
