/** scripts/contained.sh, under which tests and benchmarks run: no process of theirs outlives it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";
import { eventually } from "../../helper/sbx.ts";

/**
 * Starts a daemon as services are started: in a session of its own, with another
 * parent; its pid goes to stdout.
 */
const DAEMON = 'setsid sh -c "echo \\$\\$; exec sleep 100071" & sleep 0.2';

/** Command lines of the daemons that run. */
async function running(): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir("/proc"), ({ name }) => name);
  const lines = await Promise.all(
    names.filter((name) => /^\d+$/.test(name)).map((pid) =>
      Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => "")
    ),
  );
  return lines.map((line) => line.replaceAll("\0", " ")).filter((line) => /^sleep 10007[123] $/.test(line));
}

Deno.test("processes that a command leaves behind end with it, and its exit code is kept", async () => {
  const { code, stdout, stderr } = await new Deno.Command(fromRoot("scripts/contained.sh"), {
    args: ["bash", "-c", `${DAEMON}; exit 7`],
    stdin: "null",
  }).output();
  const pid = new TextDecoder().decode(stdout).trim();
  assertEquals(code, 7);
  assertStringIncludes(new TextDecoder().decode(stderr), `${pid} sleep 100071`);
  await eventually("the daemon has ended", async () => (await running()).length === 0);
});

Deno.test("an interrupt ends all processes of a command, also a daemon that cleared its environment", async () => {
  const child = new Deno.Command(fromRoot("scripts/contained.sh"), {
    args: ["bash", "-c", `${DAEMON}; (env -i setsid sleep 100072 &); sleep 100073`],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  await eventually("its programs run", async () => (await running()).length === 3);
  child.kill("SIGTERM");
  assertEquals((await child.status).code, 130);
  await child.stdout.cancel();
  await eventually("its programs have ended", async () => (await running()).length === 0);
});
