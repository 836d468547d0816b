/** Programs whose input comes while they run. */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { limitChild } from "../helper/child.ts";
import { Random } from "../helper/random.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually, type Sbx } from "../helper/sbx.ts";

/** More than all buffers between the two ends. */
const BYTES = 6 * 1024 * 1024;

export async function pipeSteps(t: Deno.TestContext, sbx: Sbx, vm: string): Promise<void> {
  const start = (...program: string[]) =>
    limitChild(
      new Deno.Command(fromRoot("bin/sbx"), {
        args: ["exec", "-i", vm, "--", ...program],
        env: sbx.env,
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn(),
    );
  const runs = async (line: string) =>
    (await sbx.ok("exec", vm, "--", "ps", "-e", "-o", "args")).split("\n").includes(line);

  await t.step("input goes in and output comes out at the same time, every byte of both", async () => {
    const bytes = Uint8Array.from(new Random(11).bytes(BYTES));
    const child = start("cat");
    const output = child.output();
    await new Blob([bytes]).stream().pipeTo(child.stdin);
    const { code, stdout } = await output;
    assertEquals(code, 0);
    assert(Buffer.from(stdout).equals(bytes));
  });

  await t.step("a line is answered before the next one is written", async () => {
    const child = start("sh", "-c", 'while read -r line; do echo "got $line"; done; echo over >&2; exit 7');
    const writer = child.stdin.getWriter();
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    for (const line of ["one", "two"]) {
      await writer.write(new TextEncoder().encode(`${line}\n`));
      assertEquals((await reader.read()).value, `got ${line}\n`);
    }
    await writer.close();
    assertEquals([(await child.status).code, await new Response(child.stderr).text()], [7, "over\n"]);
    await reader.cancel();
  });

  for (const [what, input] of [["has ended its input", ""], ["has more input than is taken", "y\n"]]) {
    await t.step(`a client that leaves and ${what} ends its program`, async () => {
      const child = start("sleep", `4${input.length}42`);
      const writer = child.stdin.getWriter();
      if (input === "") await writer.close();
      else void writer.write(new TextEncoder().encode(input.repeat(BYTES / 2))).catch(() => {});
      await eventually("it runs", () => runs(`sleep 4${input.length}42`));
      child.kill("SIGKILL");
      await Promise.all([child.status, child.stdout.cancel(), child.stderr.cancel()]);
      await eventually("it is gone", async () => !await runs(`sleep 4${input.length}42`));
    });
  }

  await t.step("output that nobody takes waits, and its end is the program's", async () => {
    const child = start("yes", "line");
    await child.stdin.close();
    const reader = child.stdout.getReader();
    await reader.read();
    await eventually("it runs", () => runs("yes line"));
    await reader.cancel();
    await child.status;
    await child.stderr.cancel();
    await eventually("it is gone", async () => !await runs("yes line"));
  });

  await t.step("a socket that sends anything else is told so, and closed", async () => {
    for (const first of ["{", '{"command":["true"],"stdin":"x"}', new Uint8Array([1])]) {
      const socket = new WebSocket(`${sbx.base.replace("http", "ws")}/program/${vm}?token=${sbx.token}`);
      const told: string[] = [];
      socket.onmessage = ({ data }) => told.push(data);
      socket.onopen = () => socket.send(first);
      await new Promise((resolve) => socket.onclose = resolve);
      assertEquals(told.map((text) => JSON.parse(text).error.code), ["request.invalid"]);
    }
  });
}
