/**
 * `sbx-admin fleet serve` refuses an address before it makes or serves anything, and shows no secret of it;
 * machines reach a receiver by the certificate authority of corp.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { openCa } from "../../lib/network/ca/mod.ts";
import { listMachines, makeToken, serveFleet } from "../../lib/fleet/receive/mod.ts";
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

Deno.test("fleet enrol: a receiver whose certificate is of corp's own authority", async () => {
  const dir = await Deno.makeTempDir();
  const ca = await openCa({ dir });
  const store = join(dir, "store");
  const server = await serveFleet({
    dir: store,
    hostname: "127.0.0.1",
    port: 0,
    tls: await ca.leaf("localhost"),
  });
  try {
    const url = `https://localhost:${server.addr.port}`;
    const corp = join(dir, "corp.toml");
    const enrol = async (text: string) => {
      await Deno.writeTextFile(corp, text);
      const { token } = await makeToken(store);
      await Deno.writeTextFile(join(dir, "token.txt"), `${token}\n`);
      const { code, stderr } = await runChild("sh", {
        args: ["-c", '"$0" fleet enrol --name laptop < "$1"', fromRoot("bin/sbx"), join(dir, "token.txt")],
        env: { SBX_HOME: join(dir, "home"), SBX_CORP_CONFIG: corp, NO_COLOR: "1" },
      });
      return { code, text: new TextDecoder().decode(stderr) };
    };
    const terms = `[fleet]\nurl = "${url}"\n`;
    const unknown = await enrol(terms);
    assertEquals(unknown.code, 1, unknown.text);
    const known = await enrol(
      `${terms}[settings."network.extra_ca_file"]\nvalue = "${join(dir, "ca/ca.crt")}"\n`,
    );
    assertEquals(known.code, 0, known.text);
    assertEquals((await listMachines(store)).map(({ name }) => name), ["laptop"]);
  } finally {
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
});
