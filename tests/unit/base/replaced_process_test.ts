/** Processes that still run a replaced program, found by their file and home. */
import { assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { hasOlder } from "../../../cmd/admin/users.ts";
import { programProcesses, replacedProcesses } from "../../../lib/base/process/mod.ts";

Deno.test("processes of a replaced program are found by home, others are not", async () => {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const program = join(dir, "program"), other = join(dir, "other");
  const replace = async (path: string) => {
    await Deno.copyFile(await Deno.realPath("/bin/sleep"), `${path}.new`);
    await Deno.rename(`${path}.new`, path);
  };
  await Promise.all([replace(program), replace(other)]);
  const start = (path: string, env: Record<string, string>) =>
    new Deno.Command(path, { args: ["600"], clearEnv: true, env, stdin: "null" }).spawn();
  const old = [
    start(program, {}),
    start(program, {}),
    start(program, { SBX_HOME: "/srv/ci" }),
    start(other, {}),
  ];
  await Promise.all([replace(program), replace(other)]);
  const current = start(program, {});
  try {
    const found = await replacedProcesses(program);
    assertEquals(
      found.map(({ uid, home, pids }) => [uid, home, pids.toSorted()]).toSorted(),
      [
        [Deno.uid(), undefined, [old[0].pid, old[1].pid].toSorted()],
        [Deno.uid(), "/srv/ci", [old[2].pid]],
      ].toSorted(),
    );
    const all = await programProcesses(program);
    assertEquals(
      all.find(({ home }) => home === undefined)?.pids.toSorted(),
      [old[0].pid, old[1].pid, current.pid].toSorted(),
    );
  } finally {
    for (const child of [...old, current]) {
      child.kill("SIGKILL");
      await child.status;
    }
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test({
  name: "a process of a removed program is older than a version, or not, by what the program itself says",
  // Programs are asked as their users.
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  fn: async () => {
    // On the file system of Deno: a program of its size is linked, and not copied.
    const dir = await Deno.makeTempDir({ dir: dirname(await Deno.realPath(Deno.execPath())) });
    const program = join(dir, "program"), silent = join(dir, "silent");
    await Deno.link(await Deno.realPath(Deno.execPath()), program);
    await Deno.copyFile(await Deno.realPath("/bin/sleep"), silent);
    const children = [
      new Deno.Command(program, { args: ["eval", "setInterval(() => {}, 1e6)"], stdin: "null" }).spawn(),
      new Deno.Command(silent, { args: ["600"], stdin: "null" }).spawn(),
    ];
    try {
      await Deno.remove(program);
      const user = { name: "root", uid: 0, home: "/root" };
      const [known, unknown] = children.map(({ pid }) => pid);
      const { deno } = Deno.version;
      assertEquals(await hasOlder(user, [known], deno), false);
      assertEquals(await hasOlder(user, [known], "999.0.0"), true);
      assertEquals(await hasOlder(user, [known, unknown], deno), true);
    } finally {
      for (const child of children) {
        child.kill("SIGKILL");
        await child.status;
      }
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test({
  name: "a process with its user's environment and root's rights is not root's",
  // Only root starts processes of others.
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  fn: async () => {
    const dir = await Deno.realPath(await Deno.makeTempDir());
    const program = join(dir, "program");
    await Deno.chmod(dir, 0o755);
    await Deno.copyFile(await Deno.realPath("/bin/sleep"), program);
    await Deno.chmod(program, 0o4755);
    const env = { SBX_HOME: "/tmp/evil" };
    const user = { uid: 65534, gid: 65534 };
    const child = new Deno.Command(program, {
      args: ["600"],
      ...user,
      cwd: dir,
      clearEnv: true,
      env,
      stdin: "null",
    })
      .spawn();
    await Deno.remove(program);
    try {
      assertEquals((await Deno.stat(`/proc/${child.pid}`)).uid, 0);
      assertEquals(await replacedProcesses(program), []);
    } finally {
      child.kill("SIGKILL");
      await child.status;
      await Deno.remove(dir, { recursive: true });
    }
  },
});
