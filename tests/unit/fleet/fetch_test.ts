/** Engines from a registry: by their hashes, in one step, and without their scripts. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { ENGINES } from "../../../lib/fleet/engine.ts";
import {
  ENGINE_PACKAGES,
  engineFiles,
  type EnginePackage,
  fetchEngine,
} from "../../../lib/fleet/fetch/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("an engine is fetched by its hash, once, and other bytes leave nothing", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.mkdir(`${dir}/package`);
  await Deno.writeTextFile(
    `${dir}/package/package.json`,
    JSON.stringify({ name: "@a/b", version: "1.0.0", scripts: { install: "touch ran" } }),
  );
  const { success } = await new Deno.Command("tar", { args: ["-czf", `${dir}/b.tgz`, "-C", dir, "package"] })
    .output();
  assert(success);
  const bytes = await Deno.readFile(`${dir}/b.tgz`);
  const asked: string[] = [];
  let answer = bytes;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    asked.push(new URL(request.url).pathname);
    return answer.length === 0 ? new Response(null, { status: 404 }) : new Response(answer);
  });
  const registry = `http://127.0.0.1:${server.addr.port}/npm`;
  const folder = `${dir}/engines`;
  const one: EnginePackage = {
    name: "@a/b",
    version: "1.0.0",
    integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}`,
    engine: "duckdb",
  };
  const entries = async () =>
    (await Array.fromAsync(Deno.readDir(`${folder}/node_modules/@a`))).map(({ name }) => name);

  answer = bytes.with(20, bytes[20] ^ 1);
  const error = await assertRejects(() => fetchEngine([one], folder, { registry }), SbxError);
  assertEquals(error.code, "fleet.engine.invalid");
  assertEquals(await entries(), []);
  answer = new Uint8Array();
  assertMatch(
    (await assertRejects(() => fetchEngine([one], folder, { registry }), SbxError)).message,
    /status 404/,
  );

  answer = bytes;
  assertEquals(await fetchEngine([one], folder, { registry }), [{
    name: "@a/b",
    version: "1.0.0",
    isKnown: false,
  }]);
  assertEquals(await entries(), ["b"]);
  assertEquals((await Array.fromAsync(Deno.readDir(`${folder}/node_modules/@a/b`))).map(({ name }) => name), [
    "package.json",
  ]);
  assertEquals(asked.at(-1), "/npm/@a/b/-/b-1.0.0.tgz");
  const count = asked.length;
  assertEquals((await fetchEngine([one], folder, { registry }))[0].isKnown, true);
  assertEquals(asked.length, count);
  // A damaged one is replaced.
  await Deno.writeTextFile(`${folder}/node_modules/@a/b/package.json`, "{");
  assertEquals((await fetchEngine([one], folder, { registry }))[0].isKnown, false);
  await server.shutdown();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("the packages are the locked ones of scripts/engines, with a program for each platform of sbx", async () => {
  const { packages } = JSON.parse(await Deno.readTextFile(fromRoot("scripts/engines/package-lock.json")));
  for (const { name, version, integrity } of ENGINE_PACKAGES) {
    const locked = packages[`node_modules/${name}`];
    assertEquals([locked.version, locked.integrity], [version, integrity], name);
  }
  for (const on of ["linux-x64", "linux-arm64", "darwin-arm64"]) {
    for (const [engine, main] of [["duckdb", "@duckdb/node-api"], ["chdb", "chdb"]] as const) {
      if (engine === "chdb" && on !== "linux-x64") continue;
      const own = engineFiles(engine, on);
      assertEquals(own.find(({ name }) => name === main)?.version, ENGINES[main]);
      assertEquals(own.filter((each) => each.on !== undefined).length, 1, `${engine} ${on}`);
      // Nothing that they need is left out.
      for (const { name } of own) {
        for (const needed of Object.keys(packages[`node_modules/${name}`].dependencies ?? {})) {
          assert(own.some((each) => each.name === needed), `${name} needs ${needed}`);
        }
      }
    }
  }
  assertEquals(
    (await assertRejects(() => Promise.resolve().then(() => engineFiles("duckdb", "plan9-x64")), SbxError))
      .code,
    "fleet.engine.missing",
  );
});
