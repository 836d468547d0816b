/** What roles say in their logs: on a disk without room it is lost, and nothing else is. */
import { assert, assertEquals, assertMatch } from "@std/assert";

const MODULE = JSON.stringify(new URL("../../../lib/base/log/mod.ts", import.meta.url).href);

/** Runs a program whose standard error is this file. @returns its exit code and its standard output */
async function run(program: string, stderr: string): Promise<{ code: number; stdout: string }> {
  const script =
    `import { log, outliveRejections, say } from ${MODULE};\n${program}\nconsole.log("went on");`;
  const { code, stdout } = await new Deno.Command("/bin/sh", {
    args: ["-c", 'exec "$0" eval --no-check "$1" 2>"$2"', Deno.execPath(), script, stderr],
  }).output();
  return { code, stdout: new TextDecoder().decode(stdout) };
}

Deno.test("a log on a full disk ends nothing", async () => {
  const wentOn = { code: 0, stdout: "went on\n" };
  assertEquals(await run(`log("a line", new Error("of whatever")); say("words");`, "/dev/full"), wentOn);
  const { code } = await run(`console.error("a line");`, "/dev/full");
  assert(code !== 0, "what this is instead of does end");
});

Deno.test("a line has its time, and an error its stack", async () => {
  const path = await Deno.makeTempFile();
  try {
    await run(`log("first:", new Error("gone"), { a: 1 }); say("sbx-x: bare");`, path);
    const text = await Deno.readTextFile(path);
    assertMatch(text, /^\d{4}-\d\d-\d\dT[\d:.]+Z first: Error: gone\n +at [^]* { a: 1 }\nsbx-x: bare\n$/);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("a promise that fails and that nobody awaits ends nothing, and is told", async () => {
  const path = await Deno.makeTempFile();
  const fail = `Promise.reject(new Error("lost")); await new Promise((done) => setTimeout(done, 50));`;
  try {
    assertEquals(await run(`outliveRejections(); ${fail}`, path), { code: 0, stdout: "went on\n" });
    assertMatch(await Deno.readTextFile(path), /Z unhandled: Error: lost\n/);
    assertEquals((await run(fail, path)).stdout, "");
  } finally {
    await Deno.remove(path);
  }
});
