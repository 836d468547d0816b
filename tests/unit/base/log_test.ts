/** Logs of background roles: on a full disk lines are lost and nothing else fails. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { runChild } from "../../helper/child.ts";

const MODULE = JSON.stringify(new URL("../../../lib/base/log/mod.ts", import.meta.url).href);

/** Runs a program with standard error redirected to a file. @returns its exit code and standard output */
async function run(
  program: string,
  stderr: string,
  level = "",
): Promise<{ code: number; stdout: string }> {
  const script =
    `import { log, outliveRejections, say } from ${MODULE};\n${program}\nconsole.log("went on");`;
  const { code, stdout } = await runChild("/bin/sh", {
    args: ["-c", 'exec "$0" eval --no-check "$1" 2>"$2"', Deno.execPath(), script, stderr],
    env: { SBX_LOG: level },
  });
  return { code, stdout: new TextDecoder().decode(stdout) };
}

Deno.test("logging to a full disk does not end the process", async () => {
  const unaffected = { code: 0, stdout: "went on\n" };
  assertEquals(
    await run(`log.error("a line", new Error("of whatever")); say("words");`, "/dev/full"),
    unaffected,
  );
  const { code } = await run(`console.error("a line");`, "/dev/full");
  assert(code !== 0, "console.error ends the process on a full disk");
});

Deno.test("a line starts with its time, and an error shows its stack", async () => {
  const path = await Deno.makeTempFile();
  try {
    await run(`log.info("first:", new Error("gone"), { a: 1 }); say("sbx-x: bare");`, path);
    const text = await Deno.readTextFile(path);
    assertMatch(
      text,
      /^\d{4}-\d\d-\d\dT[\d:.]+Z info first: Error: gone\n +at [^]* { a: 1 }\nsbx-x: bare\n$/,
    );
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("SBX_LOG selects the levels that are written; a value that is no level is reported", async () => {
  const path = await Deno.makeTempFile();
  const program = 'log.error("e"); log.warn("w"); log.info("i"); log.debug("d"); say("always");';
  const levels = async (value: string) => {
    await run(program, path, value);
    return (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => line.replace(/^\S+Z /, ""));
  };
  const all = ["error e", "warn w", "info i", "debug d"];
  try {
    for (const [value, count] of [["error", 1], ["warn", 2], ["info", 3], ["debug", 4], ["", 3]] as const) {
      assertEquals(await levels(value), [...all.slice(0, count), "always"], value);
    }
    assertEquals(await levels("verbose"), [
      'SBX_LOG="verbose" is not a log level: info applies; set it to error, warn, info or debug',
      ...all.slice(0, 3),
      "always",
    ]);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("an unhandled rejection is logged and does not end the process", async () => {
  const path = await Deno.makeTempFile();
  const fail = `Promise.reject(new Error("lost")); await new Promise((done) => setTimeout(done, 50));`;
  try {
    assertEquals(await run(`outliveRejections(); ${fail}`, path), { code: 0, stdout: "went on\n" });
    assertMatch(await Deno.readTextFile(path), /Z error unhandled: Error: lost\n/);
    assertEquals((await run(fail, path)).stdout, "");
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("a line is redacted before it is written, and withheld where that fails", async () => {
  const path = await Deno.makeTempFile();
  const redact =
    `redactLog((line) => { if (line.includes("bad")) throw new Error(); return line.replace("s3", "***"); });`;
  await run(
    `import { redactLog } from ${MODULE}; ${redact} log.info("key s3"); log.info("bad"); say("s3");`,
    path,
  );
  const lines = (await Deno.readTextFile(path)).trim().split("\n");
  assertEquals(lines.map((line) => line.replace(/^\S+Z /, "")), ["info key ***", "***"]);
  await Deno.remove(path);
});
