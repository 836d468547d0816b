/** Programs of stdio MCP servers in VMs that the service provides. */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Call, Caller, McpNeed } from "../../../lib/session/ipc/mod.ts";
import type { Program } from "../../../lib/mcp/mod.ts";
import { ProgramVms } from "../../../lib/session/mcp_program.ts";
import { withProcesses } from "../../helper/vm_process.ts";

const ONE = "11111111-1111-4111-8111-111111111111";
const TWO = "22222222-2222-4222-8222-222222222222";
const CAT: Program = { argv: ["cat"], env: { PLACE: "there" } };
const never = new AbortController().signal;
const encode = (text: string) => new TextEncoder().encode(text);

/** Serves an Exec as `cat` would; `die` ends it with words on standard error. */
async function cat(_vm: string, call: Call, caller: Caller): Promise<void> {
  assertEquals(call.t === "Exec" && [call.argv, call.env, call.stdin], [["cat"], CAT.env, true]);
  for (let input = await caller.input(); input?.t === "Data"; input = await caller.input()) {
    const text = new TextDecoder().decode(Uint8Array.fromBase64(input.data));
    const dies = text.startsWith("die");
    await caller.reply({ t: "Output", stream: dies ? "stderr" : "stdout", data: input.data });
    if (dies) {
      return await caller.reply({
        t: "Exited",
        exit_code: 3,
        truncated: false,
        duration_ms: 1,
        event_id: "e",
      });
    }
  }
}

/** @param work gets the needs as they were told, the latest last */
function withVms(
  names: string[],
  work: (vms: ProgramVms, told: McpNeed[][], dir: string) => Promise<void>,
  handle = cat,
): Promise<void> {
  return withProcesses(names, handle, async (dir) => {
    const told: McpNeed[][] = [];
    const vms = new ProgramVms({
      logs: dir,
      socketOf: (session) => join(dir, `${session}.sock`),
      tell: (needs) => told.push(needs),
    });
    vms.use(new Map([["files", CAT]]));
    await work(vms, told, dir);
  });
}

const read = async (program: { read(into: Uint8Array): Promise<number | null> }) => {
  const into = new Uint8Array(4);
  const count = await program.read(into);
  return count === null ? null : new TextDecoder().decode(into.subarray(0, count));
};

Deno.test("a program waits for its VM, and has its input and output there", () =>
  withVms([ONE], async (vms, told) => {
    assertEquals(told, [], "nothing is needed before the first use");
    const starting = vms.start("files", never);
    const [need] = told.at(-1)!;
    assertEquals(need.server, "files");
    vms.assign(need, { session: ONE });
    const program = await starting;
    await program.write(encode("hello\n"));
    assertEquals([await read(program), await read(program)], ["hell", "o\n"]);
    program.close();
  }));

Deno.test("standard error goes to a log, and its end into the reason why a program ended", () =>
  withVms([ONE], async (vms, told, dir) => {
    const starting = vms.start("files", never);
    vms.assign(told.at(-1)![0], { session: ONE });
    const program = await starting;
    assertEquals(program.end, undefined);
    await program.write(encode("die: no such file\n"));
    assertEquals(await read(program), null);
    assertEquals(program.end, "its program ended with exit code 3: die: no such file");
    program.close();
    assertEquals(await Deno.readTextFile(join(dir, "mcp-files.log")), "die: no such file\n");
  }));

Deno.test("the log of standard error is bounded", () =>
  withVms([ONE], async (vms, told, dir) => {
    const starting = vms.start("files", never);
    vms.assign(told.at(-1)![0], { session: ONE });
    const program = await starting;
    assertEquals(await read(program), null);
    program.close();
    const { size } = await Deno.stat(join(dir, "mcp-files.log"));
    assert(size > 1024 * 1024 && size < 1024 * 1024 + 100, `${size} bytes`);
    assert(program.end!.length < 300, program.end);
  }, async (_, _call, caller) => {
    const data = new Uint8Array(100_000).fill(120).toBase64();
    for (let at = 0; at < 20; at++) await caller.reply({ t: "Output", stream: "stderr", data });
    await caller.reply({ t: "Exited", exit_code: 1, truncated: false, duration_ms: 1, event_id: "e" });
  }));

Deno.test("standard error is read at a limited rate: a flood of it waits in its VM", () =>
  withVms([ONE], async (vms, told) => {
    const starting = vms.start("files", never);
    vms.assign(told.at(-1)![0], { session: ONE });
    const program = await starting;
    const began = performance.now();
    assertEquals(await read(program), null);
    // 4 MiB a second; the second that is not used up to its end is the last one.
    assert(performance.now() - began > 900, "6 MiB take a second");
    program.close();
  }, async (_, _call, caller) => {
    const data = new Uint8Array(1024 * 1024).toBase64();
    for (let at = 0; at < 6; at++) await caller.reply({ t: "Output", stream: "stderr", data });
    await caller.reply({ t: "Exited", exit_code: 0, truncated: false, duration_ms: 1, event_id: "e" });
  }));

Deno.test("a VM that is gone is replaced by another one, once", () =>
  withVms([TWO], async (vms, told) => {
    const starting = vms.start("files", never);
    vms.assign(told.at(-1)![0], { session: ONE });
    while (told.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    vms.assign(told.at(-1)![0], { session: TWO });
    const program = await starting;
    await program.write(encode("ok\n"));
    assertEquals(await read(program), "ok\n");
    program.close();
  }));

Deno.test("a VM that cannot be started fails the start with the reason, and is needed no more until the next", () =>
  withVms([], async (vms, told) => {
    const starting = vms.start("files", never);
    vms.assign(told.at(-1)![0], { error: "10 VMs are running" });
    assertStringIncludes((await assertRejects(() => starting, Error)).message, "10 VMs are running");
    assertEquals(told.at(-1), []);
  }));

Deno.test("a changed program gets another VM, and an answer that is late for the old one is not taken", () =>
  withVms([ONE], async (vms, told) => {
    const starting = vms.start("files", never);
    const [before] = told.at(-1)!;
    vms.use(new Map([["files", { argv: ["cat", "-u"], env: {} }]]));
    assertMatch((await assertRejects(() => starting, Error)).message, /definition has changed/);
    assertEquals(told.at(-1), []);
    const again = new AbortController();
    const waiting = vms.start("files", again.signal);
    const [after] = told.at(-1)!;
    assert(after.program !== before.program);
    vms.assign(before, { session: ONE });
    assertEquals(told.at(-1), [after], "the service is told again");
    again.abort(new Error("enough"));
    assertStringIncludes((await assertRejects(() => waiting, Error)).message, "enough");
    vms.use(new Map());
    assertEquals(told.at(-1), []);
  }));

Deno.test("a caller that is gone ends the program in its VM", async () => {
  const ended = Promise.withResolvers<void>();
  await withVms([ONE], async (vms, told) => {
    const starting = vms.start("files", never);
    vms.assign(told.at(-1)![0], { session: ONE });
    (await starting).close();
    await ended.promise;
  }, async (_, _call, caller) => {
    assertEquals(await caller.input(), null);
    ended.resolve();
  });
});
