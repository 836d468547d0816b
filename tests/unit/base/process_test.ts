/** What the system says of a process, asked in each of its ways. */
import { assert, assertEquals } from "@std/assert";
import { commandLineOf, environmentOf, WAYS } from "../../../lib/base/process/mod.ts";

/** Starts a program that waits for its input; one that was just started may still be a copy of this one. */
async function start(args: string[], env: Record<string, string> = {}): Promise<Deno.ChildProcess> {
  const child = new Deno.Command("/bin/cat", { args: ["-", ...args], env, stdin: "piped" }).spawn();
  while ((await commandLineOf(child.pid))?.[0] !== "/bin/cat") {
    await new Promise((done) => setTimeout(done, 5));
  }
  return child;
}

async function end(child: Deno.ChildProcess): Promise<void> {
  child.kill();
  await child.stdin.abort().catch(() => {});
  await child.status;
}

Deno.test("the command line of a process is told in each way, and that of none in no way", async () => {
  const child = await start(["600"], { SBX_PROBE: "a=b" });
  try {
    for (const [name, ask] of Object.entries(WAYS)) {
      assertEquals(await ask(child.pid), ["/bin/cat", "-", "600"], name);
    }
    assertEquals((await environmentOf(child.pid))?.get("SBX_PROBE"), "a=b");
  } finally {
    await end(child);
  }
  for (const [name, ask] of Object.entries(WAYS)) assertEquals(await ask(child.pid), undefined, name);
  assertEquals(await environmentOf(child.pid), undefined);
});

Deno.test("a word with spaces is one word on Linux", async () => {
  const child = await start(["0 "]);
  try {
    const words = await commandLineOf(child.pid);
    assert(words?.includes("0 "), String(words));
  } finally {
    await end(child);
  }
});

Deno.test("a process that has ended and was not waited for has no words", async () => {
  // The shell becomes a program that waits for no child.
  const parent = new Deno.Command("sh", {
    args: ["-c", "sleep 0.3 & echo $!; exec cat"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const output = parent.stdout.getReader();
  try {
    const pid = Number(new TextDecoder().decode((await output.read()).value));
    const ended = () => / Z /.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
    while (!ended()) await new Promise((done) => setTimeout(done, 5));
    assertEquals(await commandLineOf(pid), []);
  } finally {
    await output.cancel();
    await end(parent);
  }
});
