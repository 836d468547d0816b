/** The wire between service and process: who does not greet as this build does is not served. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { ask, CallServer, schemaHash } from "../../../lib/ipc/mod.ts";
import { FrameChannel } from "../../../lib/base/wire/mod.ts";

async function withServer(work: (path: string, served: string[]) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "vm.sock");
  const served: string[] = [];
  const server = new CallServer(Deno.listen({ transport: "unix", path }), (call, caller) => {
    served.push(call.t);
    return caller.reply({ t: "Ok" });
  });
  try {
    await work(path, served);
  } finally {
    await server.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const dial = async (path: string) => new FrameChannel(await Deno.connect({ transport: "unix", path }));

Deno.test("a call is greeted, served and answered", () =>
  withServer(async (path, served) => {
    assertEquals(await ask(path, { t: "Info" }), { t: "Ok" });
    assertEquals(served, ["Info"]);
  }));

Deno.test("another version, another schema and a greeting that is none get a named error and no service", () =>
  withServer(async (path, served) => {
    const hash = await schemaHash();
    const greetings = [
      { t: "Hello", version: 2, schema_hash: hash },
      { t: "Hello", version: 1, schema_hash: "0".repeat(64) },
      { t: "Hello", version: 1, schema_hash: hash, more: 1 },
      { t: "Boot", accelerator: "tcg" },
      null,
    ];
    for (const greeting of greetings) {
      const channel = await dial(path);
      await channel.send(greeting);
      await channel.send({ t: "Info" });
      await channel.next(); // its own greeting
      const answer = await channel.next() as { t: string; code: string };
      assertEquals([answer.t, answer.code], ["Failed", "process.hello_mismatch"], JSON.stringify(greeting));
      channel.close();
    }
    assertEquals(served, []);
  }));

Deno.test("a peer that says nothing is left after five seconds", () =>
  withServer(async (path) => {
    const channel = await dial(path);
    await channel.next();
    assertEquals((await channel.next() as { code: string }).code, "process.hello_timeout");
    channel.close();
  }));

Deno.test("nobody there: the error names what is gone", async () => {
  const error = await assertRejects(() => ask("/nonexistent/vm.sock", { t: "Info" }), SbxError);
  assertEquals(error.code, "process.gone");
});
