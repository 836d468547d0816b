/**
 * The CLI with the sbx of another machine through a real OpenSSH server, which is
 * unpacked for that and not installed.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

/** A server on loopback with a key of its own, for this user. */
async function startServer(
  dir: string,
  home: string,
): Promise<{ port: number; env: Record<string, string>; child: Deno.ChildProcess }> {
  const fetched = await runChild("sh", {
    args: [
      "-c",
      'cd "$1" && apt-get download -q openssh-server libwrap0 && for deb in *.deb; do dpkg -x "$deb" root; done',
      "sh",
      dir,
    ],
  });
  assertEquals(fetched.success, true, new TextDecoder().decode(fetched.stderr));
  for (const name of ["server", "user"]) {
    await runChild("ssh-keygen", { args: ["-q", "-t", "ed25519", "-N", "", "-f", join(dir, name)] });
  }
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  await Deno.writeTextFile(
    join(dir, "sshd.conf"),
    [
      `Port ${port}`,
      "ListenAddress 127.0.0.1",
      `HostKey ${join(dir, "server")}`,
      `AuthorizedKeysFile ${join(dir, "user.pub")}`,
      "StrictModes no",
      "PidFile none",
      "PasswordAuthentication no",
      `SetEnv SBX_HOME=${home} PATH=/usr/bin:/bin`,
    ].join("\n") + "\n",
  );
  await Deno.mkdir("/run/sshd", { recursive: true });
  // The user that the server gives its rights up for, known in its own mounts alone.
  const passwd = await Deno.readTextFile("/etc/passwd");
  await Deno.writeTextFile(join(dir, "passwd"), `${passwd}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n`);
  const line =
    'mount --bind "$1/passwd" /etc/passwd && exec "$1/root/usr/sbin/sshd" -D -f "$1/sshd.conf" -E "$1/sshd.log"';
  const child = new Deno.Command("unshare", {
    args: ["--mount", "--propagation", "private", "sh", "-c", line, "sh", dir],
    env: { LD_LIBRARY_PATH: join(dir, "root/usr/lib", `${Deno.build.arch}-linux-gnu`) },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  // ssh(1) takes its configuration from the user's own folder alone; a wrapper names another one.
  const bin = join(dir, "bin");
  await Deno.mkdir(bin);
  const options = `-F none -i ${join(dir, "user")} -o StrictHostKeyChecking=no -o UserKnownHostsFile=${
    join(dir, "known")
  }`;
  await Deno.writeTextFile(join(bin, "ssh"), `#!/bin/sh\nexec /usr/bin/ssh ${options} "$@"\n`, {
    mode: 0o755,
  });
  return { port, env: { PATH: `${bin}:${Deno.env.get("PATH")}` }, child };
}

Deno.test({
  name: "--host ssh://: programs and files of another machine through SSH",
  // Another user's server would need that user's password file.
  ignore: Deno.uid() !== 0,
  fn: async (t) => {
    const dir = await Deno.makeTempDir();
    const there = await Sbx.make();
    const here = await Deno.makeTempDir();
    await there.ok("create", "dev");
    const { port, env, child } = await startServer(dir, there.home);
    const address = `ssh://root@127.0.0.1:${port}`;
    const sbx = (...args: string[]) =>
      there.run("sbx", ["--host", address, ...args], { ...env, SBX_HOME: here });
    try {
      await t.step("a program, its output and its exit code", async () => {
        await eventually("the server answers", async () => (await sbx("list")).code === 0);
        const { code, stdout, stderr } = await sbx(
          "exec",
          "dev",
          "--",
          "sh",
          "-c",
          "echo out; echo err >&2; exit 3",
        );
        assertEquals([code, stdout, stderr.includes("err\n")], [3, "out\n", true]);
      });

      await t.step("a home that the address names", async () => {
        const { stdout } = await there.run("sbx", ["--host", `${address}${there.home}`, "list", "--json"], {
          ...env,
          SBX_HOME: here,
        });
        assertEquals(JSON.parse(stdout).vms[0].name, "dev");
      });

      await t.step("files go there and back", async () => {
        await Deno.writeTextFile(join(dir, "file"), "through SSH\n");
        assertEquals((await sbx("cp", join(dir, "file"), "dev:file")).code, 0);
        assertEquals((await sbx("cp", "dev:file", join(dir, "back"))).code, 0);
        assertEquals(await Deno.readTextFile(join(dir, "back")), "through SSH\n");
      });

      await t.step("nothing is left here: no folder of the connection, no ssh, no home", async () => {
        assertEquals([...Deno.readDirSync(here)], []);
        assertEquals(await there.pids("ssh", "sbx-host-"), []);
      });

      await t.step("a machine that does not answer", async () => {
        child.kill();
        await child.status;
        const { code, stderr } = await sbx("list");
        assertEquals(code, 1);
        assertStringIncludes(stderr, `sbx on 127.0.0.1:${port} cannot be reached`);
        assertStringIncludes(stderr, `try ssh -p ${port} -l root 127.0.0.1 sbx status`);
      });
    } finally {
      try {
        child.kill();
      } catch { /* it has ended */ }
      await there.dispose();
      for (const path of [dir, here]) await Deno.remove(path, { recursive: true });
    }
  },
});
