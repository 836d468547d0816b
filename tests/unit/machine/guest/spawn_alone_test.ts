/** Programs that the guest's agent starts. */
import { assertEquals, assertThrows } from "@std/assert";
import { CallError } from "../../../../ffi/libc/descriptor.ts";
import type { PipeEnd } from "../../../../ffi/libc/pipe.ts";
import { findUser, linesOf } from "../../../../cmd/guest/pty_agent/user.ts";
import { inheritNothing, type ProgramOptions, spawnProgram } from "../../../../ffi/libc/spawn.ts";
import { fromRoot } from "../../../helper/repo.ts";

const SIGPIPE = 1n << 12n;
const ENV = { PATH: "/usr/local/bin:/usr/bin:/bin" };

function spawn(argv: string[], options: Partial<ProgramOptions> = {}) {
  return spawnProgram({ argv, cwd: "/", env: ENV, stdin: false, ...options });
}

async function text(from: PipeEnd): Promise<string> {
  let all = "";
  const chunk = new Uint8Array(1000);
  const decoder = new TextDecoder();
  for (let read = await from.read(chunk); read !== null; read = await from.read(chunk)) {
    all += decoder.decode(chunk.subarray(0, read), { stream: true });
  }
  return all;
}

async function run(argv: string[], options: Partial<ProgramOptions> = {}) {
  const { status, stdout, stderr } = spawn(argv, options);
  const [out, err, { code }] = await Promise.all([text(stdout), text(stderr), status]);
  return { out, err, code };
}

Deno.test("output, errors and exit code; arguments and environment are those given, in any alphabet", async () => {
  const script = 'printf "%s|" "$@"; echo "$KEY" >&2; env | sort | head -c 4; exit 3';
  const { out, err, code } = await run(["sh", "-c", script, "sh", "", "zwei Wörter", "三"], {
    env: { ...ENV, KEY: "ключ=1" },
  });
  assertEquals([out, err, code], ["|zwei Wörter|三|KEY=", "ключ=1\n", 3]);
});

Deno.test("a program leads a session, in its folder, with the signals of a new one", async () => {
  const cwd = await Deno.makeTempDir();
  const { pid, stdout, stderr, status } = spawn(["sh", "-c", "pwd; cat /proc/self/status"], { cwd });
  const [out] = await Promise.all([text(stdout), text(stderr), status]);
  assertEquals(out.split("\n")[0], await Deno.realPath(cwd));
  assertEquals(/^NSsid:\s+(\d+)/m.exec(out)?.[1], String(pid));
  const mask = (name: string) => BigInt(`0x${new RegExp(`^${name}:\\s+(\\w+)`, "m").exec(out)![1]}`);
  assertEquals(mask("SigBlk"), 0n);
  // Deno ignores it; others may be ignored for all of these tests, as by nohup.
  assertEquals(mask("SigIgn") & SIGPIPE, 0n);
  await Deno.remove(cwd);
});

Deno.test("a program has the signals that a shell ignores for programs in its background, as the guest's agent is", async () => {
  const program = "trap 'exit 7' QUIT; trap 'kill -QUIT $$' INT; kill -INT $$; exit 1";
  const script = `import { spawnProgram } from ${JSON.stringify(fromRoot("ffi/libc/spawn.ts"))};
    const { status } = spawnProgram(${JSON.stringify({ argv: ["sh", "-c", program], cwd: "/", env: ENV })});
    console.log((await status).code);
    Deno.exit();`;
  const { stdout } = await new Deno.Command("sh", {
    args: ["-c", "trap '' INT QUIT; exec \"$@\"", "sh", Deno.execPath(), "eval", "--quiet", script],
  }).output();
  assertEquals(new TextDecoder().decode(stdout), "7\n");
});

Deno.test("a signal's exit code is 128 and its number", async () => {
  assertEquals((await run(["sh", "-c", "kill -9 $$"])).code, 137);
});

Deno.test("it has no file but its streams; without input it reads nothing", async () => {
  inheritNothing();
  const { out } = await run(["sh", "-c", "ls /proc/self/fd | wc -l; wc -c; readlink /proc/self/fd/0"]);
  // And the folder that ls reads.
  assertEquals(out, "4\n0\n/dev/null\n");
});

Deno.test("input of more than a pipe holds, to a program that answers meanwhile", async () => {
  const { stdin, stdout, stderr, status } = spawn(["cat"], { stdin: true });
  const piece = new Uint8Array(300_000).fill(97);
  const writing = stdin!.write(piece).then(() => stdin!.close());
  const [out] = await Promise.all([text(stdout), text(stderr), writing]);
  assertEquals([out.length, (await status).code], [piece.length, 0]);
});

Deno.test("input of a program that reads no more is refused, whether it is written before or after its end", async () => {
  const { stdin, stdout, stderr, status } = spawn(["sh", "-c", "exec 0<&-; sleep 0.2"], { stdin: true });
  const refused = await stdin!.write(new Uint8Array(300_000)).then(() => undefined, (error) => error);
  assertEquals((refused as CallError).code, "EPIPE");
  await Promise.all([text(stdout), text(stderr), status]);
  const late = await stdin!.write(new Uint8Array(1)).then(() => undefined, (error) => error);
  assertEquals((late as CallError).code, "EPIPE");
  stdin!.close();
});

Deno.test("output that is closed ends a read that waits", async () => {
  const { pid, stdout, stderr, status } = spawn(["sleep", "60"]);
  const reading = text(stdout);
  stdout.close();
  assertEquals(await reading, "");
  Deno.kill(pid, "SIGKILL");
  assertEquals([(await status).code, await text(stderr)], [137, ""]);
});

Deno.test("a program is found in the PATH that it gets, as execvp(3) finds it", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const write = (path: string, text: string, mode: number) =>
      Deno.writeTextFile(`${dir}/${path}`, text, { mode });
    for (const name of ["first", "second", "first/hello"]) await Deno.mkdir(`${dir}/${name}`);
    await write("second/hello", "#!/bin/sh\necho second", 0o755);
    await write("second/plain", "echo no format $1", 0o755);
    await write("second/locked", "", 0o644);
    const env = { PATH: `${dir}/none:${dir}/first:second:/usr/bin:/bin` };
    const output = async (...argv: string[]) => (await run(argv, { cwd: dir, env })).out;
    assertEquals(await output("hello"), "second\n");
    assertEquals(await output("./second/hello"), "second\n");
    assertEquals(await output("plain", "here"), "no format here\n");
    const code = (...argv: string[]) => assertThrows(() => spawn(argv, { cwd: dir, env }), CallError).code;
    assertEquals([code("locked"), code("absent"), code("./absent"), code("")], [
      "EACCES",
      ...Array(3).fill("ENOENT"),
    ]);
    assertEquals(assertThrows(() => spawn(["true"], { cwd: `${dir}/absent` }), CallError).code, "ENOENT");
    assertEquals(code("true", "x".repeat(200_000)), "E2BIG");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

/** A process of its own, since other tests open files in this one. */
const COUNT_OPEN = `
import { spawnProgram } from "./ffi/libc/spawn.ts";
const spawn = (name, stdin) =>
  spawnProgram({ argv: [name], cwd: "/", env: ${JSON.stringify(ENV)}, stdin });
async function run() {
  const { status, stdout, stderr } = spawn("true", false);
  for (const stream of [stdout, stderr]) while (await stream.read(new Uint8Array(10)) !== null);
  await status;
}
// Without files: Deno opens its caches, each with its journal, when it likes, and a program's start opens
// only /dev/null.
const open = () => Array.from(Deno.readDirSync("/proc/self/fd"), ({ name }) => {
  try {
    return Deno.readLinkSync("/proc/self/fd/" + name);
  } catch {
    return "/gone";
  }
}).filter((link) => link[0] !== "/" || link.startsWith("/dev/"));
await run();
const before = open();
await Promise.all(Array.from({ length: 20 }, run));
try {
  spawn("absent", true);
} catch (error) {
  if (error.code !== "ENOENT") throw error;
}
const children = Deno.readTextFileSync("/proc/self/task/" + Deno.pid + "/children");
const left = open();
for (const link of before) if (left.includes(link)) left.splice(left.indexOf(link), 1);
console.log(JSON.stringify([left, children]));
Deno.exit();`;

Deno.test("nothing stays open after programs that ran, and after one that could not be started", async () => {
  const counted = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", COUNT_OPEN],
    cwd: fromRoot("."),
  }).output();
  assertEquals(new TextDecoder().decode(counted.stderr), "");
  assertEquals(JSON.parse(new TextDecoder().decode(counted.stdout)), [[], ""]);
});

// Only root may become another user.
Deno.test({
  name: "a program of another user has that user's groups and no capability; this process stays root",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const lines = (status: string) =>
      ["Uid", "Gid", "Groups", "CapPrm", "CapEff"].map((name) =>
        new RegExp(`^${name}:\\s+(.*?)\\s*$`, "m").exec(status)![1].replaceAll(/\s+/g, " ")
      );
    const before = lines(await Deno.readTextFile("/proc/thread-self/status"));
    const { out } = await run(["cat", "/proc/self/status"], { user: { uid: 1234, gid: 55, groups: [7, 9] } });
    assertEquals(lines(out), [
      "1234 1234 1234 1234",
      "55 55 55 55",
      "7 9 55",
      "0000000000000000",
      "0000000000000000",
    ]);
    const streams = "echo out >/dev/stdout; echo err >/dev/stderr";
    const both = await run(["sh", "-c", streams], { user: { uid: 1234, gid: 55, groups: [] } });
    assertEquals(both, { out: "out\n", err: "err\n", code: 0 });
    assertThrows(() => spawn(["/etc/shadow"], { user: { uid: 1234, gid: 55, groups: [] } }), CallError);
    assertEquals(lines(await Deno.readTextFile("/proc/thread-self/status")), before);
  },
});

Deno.test("a file of users that is a pipe, or larger than memory, has no users", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${dir}/users`, "app:x:1000:1000::/home/app:/bin/sh\n");
    assertEquals(linesOf(`${dir}/users`).length, 1);
    await Deno.truncate(`${dir}/users`, 1024 ** 4);
    assertEquals(linesOf(`${dir}/users`), []);
    await new Deno.Command("mkfifo", { args: [`${dir}/pipe`] }).output();
    assertEquals(linesOf(`${dir}/pipe`), []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("users are found by name and number, with their groups and home", () => {
  assertEquals(findUser("root"), { uid: 0, gid: 0, groups: [], home: "/root" });
  assertEquals(findUser("0:0"), { uid: 0, gid: 0, groups: [], home: "/root" });
  assertEquals(findUser("123456"), { uid: 123456, gid: 0, groups: [], home: "/" });
  assertEquals(findUser("123456:tty"), { uid: 123456, gid: 5, groups: [], home: "/" });
  for (const name of ["no such user", "root:no such group", "4294967295", "-1", ""]) {
    assertThrows(() => findUser(name), Error, "the guest has no");
  }
});
