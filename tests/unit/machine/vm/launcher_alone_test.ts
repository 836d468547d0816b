import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "node:path";
import { landlockVersion } from "../../../../ffi/libc/landlock.ts";
import { MemoryFile } from "../../../../ffi/libc/memory.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { currentArch } from "../../../../lib/base/arch/mod.ts";
import { SOCKETS } from "../../../../lib/machine/vm/command.ts";
import { Qemu } from "../../../../lib/machine/vm/mod.ts";
import { Launcher, type MachineProgram } from "../../../../lib/machine/vm/launcher.ts";
import { eventually } from "../../../helper/sbx.ts";

/** A machine's folder and images, and a file beside them; `run` gives a script's exit code and output. */
async function withMachine(
  work: (machine: { dir: string; scratch: string; other: string; launcher: Launcher }) => Promise<void>,
): Promise<void> {
  const home = await Deno.makeTempDir();
  const [dir, scratch, other] = ["run", "scratch", "secret"].map((name) => join(home, name));
  await Deno.mkdir(dir);
  for (const path of [scratch, other, join(home, "kernel")]) await Deno.writeTextFile(path, "content");
  const image = join(home, "kernel");
  const launcher = new Launcher({ dir, kernel: image, initrd: image, rootfs: image, scratch });
  try {
    await work({ dir, scratch, other, launcher });
  } finally {
    launcher.close();
    await Deno.remove(home, { recursive: true });
  }
}

async function run(launcher: Launcher, script: string, keep?: number[]): Promise<[number, string]> {
  const program = await launcher.spawn(["sh", "-c", script], keep);
  return [(await program.status).code, await outputOf(program)];
}

async function outputOf({ stdin, stdout, stderr }: MachineProgram): Promise<string> {
  await stdin.close();
  return (await Promise.all([stdout, stderr].map((stream) => new Response(stream).text()))).join("");
}

Deno.test({
  name: "a machine's program has its own files, and no other",
  ignore: landlockVersion() === 0,
  fn: () =>
    withMachine(async ({ dir, scratch, other, launcher }) => {
      assertEquals(await run(launcher, `cat ${scratch} && echo more >> ${scratch}`), [0, "content"]);
      const kernel = join(dir, "../kernel");
      assertEquals(await run(launcher, `cat ${kernel}`), [0, "content"]);
      for (const path of [other, "/etc/passwd", "/proc/1/environ", Deno.execPath()]) {
        const [code, text] = await run(launcher, `cat ${path}`);
        assert(code !== 0, path);
        assertMatch(text, /Permission denied/);
      }
      for (
        const made of [
          `echo x > ${kernel}`,
          `echo x > ${dir}/file`,
          `ln -s / ${dir}/link`,
          `mkdir ${dir}/sub`,
        ]
      ) {
        assertMatch((await run(launcher, made))[1], /Permission denied/, made);
      }
      assertEquals(await Deno.readTextFile(scratch), "contentmore\n");
      // The process that confined a thread of its own is as it was.
      assertEquals(await Deno.readTextFile(other), "content");
    }),
});

Deno.test("a machine's program reaches no network, no other process, no namespace, and no file's mode", () =>
  withMachine(async ({ launcher, other, scratch }) => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const isIntel = Deno.build.arch === "x86_64";
    const tried = [
      `use Socket; socket(S, AF_INET, SOCK_STREAM, 0) or die "no TCP: $!\\n"; connect(S, sockaddr_in(${listener.addr.port}, inet_aton("127.0.0.1")))`,
      `use Socket; socket(S, AF_INET6, SOCK_DGRAM, 0) or die "no UDP: $!\\n"`,
      `use Socket; socket(S, 16, SOCK_RAW, 0) or die "no netlink: $!\\n"`,
      // Logs and the service manager listen for such packets.
      `use Socket; socket(S, AF_UNIX, SOCK_DGRAM, 0) or die "no datagrams: $!\\n"`,
      // A signal that only asks whether one may be sent: an older kernel would end this process by another.
      ...landlockVersion() < 6 ? [] : [`kill(0, ${Deno.pid}) or die "no signal: $!\\n"`],
      `syscall(${isIntel ? 272 : 97}, 0x10000000) == 0 or die "no namespace: $!\\n"`,
      `syscall(425, 1, 0) >= 0 or die "no io_uring: $!\\n"`,
      // Landlock decides on none of these, or not in each of its versions.
      `chmod(0777, "${other}") or die "no mode: $!\\n"`,
      `utime(0, 0, "${other}") or die "no time: $!\\n"`,
      `truncate("${other}", 0) or die "no end: $!\\n"`,
      `truncate("${scratch}", 0) or die "no end: $!\\n"`,
      `shmget(4711, 4096, 01600) or die "no shared memory: $!\\n"`,
      `my $l = pack("QQ", 1, 1); syscall(${
        isIntel ? 302 : 261
      }, ${Deno.pid}, 7, $l, 0) == 0 or die "no limit: $!\\n"`,
      `my ($p, $n) = ("${other}", "user.x"); syscall(${
        isIntel ? 188 : 5
      }, $p, $n, $n, 1, 0) == 0 or die "no attribute: $!\\n"`,
    ];
    for (const script of tried) {
      const program = await launcher.spawn(["perl", "-e", script]);
      assertEquals((await program.status).code !== 0, true, script);
      assertMatch(await outputOf(program), /^no .*not permitted/, script);
    }
    assertEquals(await Deno.readTextFile(other), "content");
  }));

Deno.test({
  name: "a machine's program connects to sockets of its folder, and to no other one of its user",
  ignore: landlockVersion() < 9,
  fn: () =>
    withMachine(async ({ dir, launcher }) => {
      const connect = (path: string) =>
        run(launcher, `exec perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new("${path}") or die "$!\\n"'`);
      const [own, other] = [join(dir, "v_1"), join(dir, "../session.sock")];
      using _own = Deno.listen({ transport: "unix", path: own });
      using _other = Deno.listen({ transport: "unix", path: other });
      assertEquals(await connect(own), [0, ""]);
      const [code, text] = await connect(other);
      assert(code !== 0);
      assertMatch(text, /Permission denied/);
    }),
});

Deno.test("a machine's program gets its memory by number, and nothing of the environment", () =>
  withMachine(async ({ launcher }) => {
    Deno.env.set("SBX_TEST_SECRET", "of the host");
    const memory = new MemoryFile("test", 4096);
    try {
      await Deno.writeTextFile(memory.path, "memory", { create: false });
      const [code, text] = await run(launcher, `head -c 6 ${memory.path}; env; ls /proc/self/fd`, [
        memory.descriptor,
      ]);
      assertEquals([code, text.slice(0, 6)], [2, "memory"]);
      assertEquals(text.includes("SBX_TEST_SECRET"), false);
    } finally {
      memory.close();
      Deno.env.delete("SBX_TEST_SECRET");
    }
  }));

Deno.test({
  name: "a machine of a home that is a link to a folder of programs starts",
  // A home is its user's own folder.
  ignore: Deno.uid() !== 0,
  fn: () =>
    withMachine(async ({ dir, scratch }) => {
      const before = Deno.env.get("SBX_HOME");
      await Deno.symlink("/usr/share", join(dir, "home"));
      Deno.env.set("SBX_HOME", join(dir, "home"));
      const launcher = new Launcher({ dir, kernel: scratch, initrd: scratch, rootfs: scratch, scratch });
      try {
        assert(await launcher.confined >= 0);
      } finally {
        launcher.close();
        if (before === undefined) Deno.env.delete("SBX_HOME");
        else Deno.env.set("SBX_HOME", before);
      }
    }),
});

Deno.test("a machine's program gets no file that this process was started with", () =>
  withMachine(async ({ other, launcher }) => {
    const libc = Deno.dlopen("libc.so.6", {
      open: { parameters: ["buffer", "i32"], result: "i32" },
      close: { parameters: ["i32"], result: "i32" },
    });
    // Without O_CLOEXEC, as a shell has it for "3<file".
    const file = libc.symbols.open(new TextEncoder().encode(`${other}\0`), 0);
    try {
      const script = `open(F, "<&=${file}") or die "not open: $!\\n"; print <F>`;
      const program = await launcher.spawn(["perl", "-e", script]);
      assertEquals([(await program.status).code !== 0, await outputOf(program)], [
        true,
        "not open: Bad file descriptor\n",
      ]);
    } finally {
      libc.symbols.close(file);
      libc.close();
    }
  }));

Deno.test("the end of a machine's program has its code or its signal, and closing the launcher ends it", () =>
  withMachine(async ({ launcher }) => {
    const own = await launcher.spawn(["sh", "-c", "exit 3"]);
    assertEquals(await own.status, { success: false, code: 3, signal: null });
    const killed = await launcher.spawn(["sleep", "1000"]);
    killed.kill("SIGKILL");
    assertEquals(await killed.status, { success: false, code: 137, signal: "SIGKILL" });
    const bound = await launcher.spawn([
      "setpriv",
      "--pdeathsig",
      "KILL",
      "--",
      "sh",
      "-c",
      "echo up; exec sleep 1000",
    ]);
    const reader = bound.stdout.getReader();
    assertEquals(new TextDecoder().decode((await reader.read()).value), "up\n");
    launcher.close();
    assertEquals(await bound.status, { success: false, code: 137, signal: "SIGKILL" });
    for (const program of [own, killed, bound]) await program.stderr.cancel();
    await Promise.all([own.stdout.cancel(), killed.stdout.cancel(), reader.cancel()]);
    for (const program of [own, killed, bound]) await program.stdin.abort();
  }));

Deno.test("a program that is not there is named", () =>
  withMachine(async ({ launcher }) => {
    const error = await assertRejects(() => launcher.spawn(["/usr/bin/none-such"]), SbxError);
    assertEquals(error.message, "/usr/bin/none-such could not be started: posix_spawn: ENOENT");
  }));

Deno.test("a machine that has ended starts no program, and none waits for it", () =>
  withMachine(async ({ launcher }) => {
    await launcher.confined;
    const started = assertRejects(() => launcher.spawn(["sleep", "1000"]), SbxError, "has ended");
    // It is asked for by then, and the thread has not answered.
    await Promise.resolve();
    launcher.close();
    await started;
    await assertRejects(() => launcher.spawn(["true"]), SbxError, "has ended");
  }));

function workerThreads(): number {
  return [...Deno.readDirSync("/proc/self/task")].filter(({ name }) => {
    try {
      return Deno.readTextFileSync(`/proc/self/task/${name}/comm`).startsWith("worker-");
    } catch {
      // It has ended meanwhile.
      return false;
    }
  }).length;
}

Deno.test("a machine whose helpers cannot be started leaves no thread", () =>
  withMachine(async ({ dir, scratch, launcher }) => {
    await launcher.confined;
    // In the place of a socket, a folder that is not empty.
    await Deno.mkdir(join(dir, SOCKETS.vsock, "sub"), { recursive: true });
    const images = { kernel: scratch, initrd: scratch, rootfs: scratch, scratch };
    const size = { arch: currentArch(), cpus: 1, ramMb: 256, accelerator: "tcg" as const };
    const spec = { ...images, ...size, dir, workspace: dir, logs: dir, onConsole() {}, onDiskFull() {} };
    const before = workerThreads();
    await assertRejects(() => new Qemu().start(spec), Error, "not empty");
    await eventually("no other thread is left", () => workerThreads() <= before);
  }));
