/** The wire between service and process: greetings, and typed replies to calls. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { FrameChannel } from "../../../../lib/base/wire/mod.ts";
import { call, CallServer, CallStream, type Reply, schemaHash } from "../../../../lib/session/ipc/mod.ts";

const INFO: Reply = { t: "Info", info: { state: "Running", boot_stages: [], pid: 1 } };

/** @param replies sent to each call, in order */
async function withServer(
  work: (path: string, calls: string[]) => Promise<void>,
  replies: unknown[] = [INFO],
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "vm.sock");
  const calls: string[] = [];
  const server = new CallServer(Deno.listen({ transport: "unix", path }), async ({ t }, caller) => {
    calls.push(t);
    for (const reply of replies) await caller.reply(reply as Reply);
  });
  try {
    await work(path, calls);
  } finally {
    await server.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const dial = async (path: string) => new FrameChannel(await Deno.connect({ transport: "unix", path }));

Deno.test("a call is greeted, served and replied to", () =>
  withServer(async (path, calls) => {
    assertEquals((await call(path, { t: "Info" })).info.state, "Running");
    assertEquals(calls, ["Info"]);
  }));

const BAD_REPLIES: [string, unknown][] = [
  ["of another call", { t: "Asks", asks: [], decided: [] }],
  ["of a stream", { t: "Output", stream: "stdout", data: "" }],
  ["of an unknown kind", { t: "Value", value: 1 }],
  ["with an unknown field", { ...INFO, more: 1 }],
  ["with an unknown field inside", { t: "Info", info: { ...INFO.info, more: 1 } }],
  ["with a missing field", { t: "Info" }],
];
for (const [what, reply] of BAD_REPLIES) {
  Deno.test(`a reply ${what} is refused with a named error`, () =>
    withServer(async (path) => {
      const error = await assertRejects(() => call(path, { t: "Info" }), SbxError);
      assertEquals(error.code, "process.bad_reply");
    }, [reply]));
}

Deno.test("a stream has the replies of its call in order, and no others", () => {
  const notice = { t: "Notice", type: "finding", payload: { rule_id: "r" } };
  return withServer(async (path) => {
    using stream = await CallStream.open(path, { t: "Watch" });
    assertEquals(await stream.next(), INFO);
    assertEquals(await stream.next() as unknown, notice);
    const error = await assertRejects(() => stream.next(), SbxError);
    assertEquals([error.code, error.message], [
      "process.bad_reply",
      "the VM's process sent the reply Ok to the call Watch",
    ]);
  }, [INFO, notice, { t: "Ok" }]);
});

Deno.test("an error of the process is thrown as it is", () =>
  withServer(async (path) => {
    const error = await assertRejects(() => call(path, { t: "Asks" }), SbxError);
    assertEquals([error.code, error.message, error.hint], ["vm.paused", "it is paused", "wait"]);
  }, [{ t: "Failed", code: "vm.paused", message: "it is paused", hint: "wait" }]));

Deno.test("another version, another schema and an invalid greeting get a named error and no service", () =>
  withServer(async (path, calls) => {
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
    assertEquals(calls, []);
  }));

Deno.test("a peer without a greeting is disconnected after five seconds", () =>
  withServer(async (path) => {
    const channel = await dial(path);
    await channel.next();
    assertEquals((await channel.next() as { code: string }).code, "process.hello_timeout");
    channel.close();
  }));

Deno.test("without a listener the error is process.gone", async () => {
  const error = await assertRejects(() => call("/nonexistent/vm.sock", { t: "Info" }), SbxError);
  assertEquals(error.code, "process.gone");
});
