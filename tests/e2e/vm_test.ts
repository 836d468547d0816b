/**
 * One VM, used the way its users do: programs, files, a terminal, its life cycle.
 * One boot is shared by most steps.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { certifySession } from "./certify_steps.ts";
import { debugSteps } from "./debug_steps.ts";
import { learn } from "../helper/release.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { snapshotSteps } from "./snapshot_steps.ts";
import { useTerminal } from "./terminal.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";
import type { HistoryResult } from "../../lib/client/api/mod.ts";

const MEBIBYTE = 1024 * 1024;

Deno.test("a VM from create to delete", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await t.step("create starts sbx and boots a VM", async () => {
      assertStringIncludes(await sbx.ok("create", "dev", "-e", "GREETING=hi there"), "dev");
      const info = JSON.parse(await sbx.ok("info", "dev", "--json"));
      assertEquals([info.status, info.profile_id, info.persistent], ["Running", "code", true]);
      assert(["kvm", "tcg"].includes(info.accelerator));
      const stages = info.boot_stages.map(({ name }: { name: string }) => name);
      assertEquals([stages[0], stages.at(-1)], ["machine started", "ready"]);
    });
    const { id, workspace } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    const exec = async (body: Record<string, unknown>) => (await sbx.api("POST", "/vms/dev/exec", body)).body;

    await t.step("exec keeps stdout and stderr apart and passes on the exit code", async () => {
      const ran = await sbx.cli("exec", "dev", "--", "sh", "-c", "echo out; echo err >&2; exit 7");
      assertEquals(ran, { code: 7, stdout: "out\n", stderr: "err\n" });
    });

    await t.step("exec: environment, folder, input, a shell line, a program that a signal ends", async () => {
      assertEquals((await exec({ command: ["printenv", "GREETING"] })).stdout, "hi there\n");
      assertEquals((await exec({ command: ["printenv", "A"], env: { A: "b" } })).stdout, "b\n");
      assertEquals((await exec({ command: "pwd", cwd: "/etc" })).stdout, "/etc\n");
      assertEquals((await exec({ command: ["cat"], stdin: "typed" })).stdout, "typed");
      assertEquals((await exec({ command: "echo $((6 * 7)) | tr 4 5" })).stdout, "52\n");
      assertEquals((await exec({ command: "kill -9 $$" })).exit_code, 137);
      assertEquals((await exec({ command: ["cat"] })).stdout, "", "without stdin it is empty, not a hang");
    });

    await t.step("exec: 126 for what cannot run, 124 for what ran too long, its children too", async () => {
      const missing = await exec({ command: ["/no/such/program"] });
      assertEquals(missing.exit_code, 126);
      assertStringIncludes(missing.stderr, "cannot run /no/such/program");
      const line = "sleep 300 & echo started; wait";
      const late = await sbx.cli("exec", "--timeout", "1", "dev", "--", "sh", "-c", line);
      assertEquals([late.code, late.stdout], [124, "started\n"]);
      assertEquals((await exec({ command: "ps -e -o args | grep -c '[s]leep 300'" })).stdout, "0\n");
    });

    await t.step(
      "exec: output over 10 MiB is cut and said so, and the program still ends by itself",
      async () => {
        const ran = await exec({ command: "head -c 12M /dev/zero | tr '\\0' x; echo done >&2" });
        assertEquals([ran.exit_code, ran.truncated, ran.stderr], [0, true, "done\n"]);
        assert(
          ran.stdout.length > 9 * MEBIBYTE && ran.stdout.length <= 10 * MEBIBYTE,
          `${ran.stdout.length}`,
        );
      },
    );

    await t.step("exec: unknown fields, wrong types and bad JSON are refused with 422 and 400", async () => {
      assertEquals(
        await sbx.api("POST", "/vms/dev/exec", { command: "true", comand: 1 }).then((
          { status, body },
        ) => [status, body.code]),
        [
          422,
          "request.unknown_field",
        ],
      );
      assertEquals((await sbx.api("POST", "/vms/dev/exec", { command: 3 })).status, 400);
      assertEquals(
        (await sbx.fetch("/vms/dev/exec", {
          method: "POST",
          body: "{",
          headers: { "content-type": "application/json" },
        })).status,
        422,
      );
      assertEquals((await sbx.fetch("/vms/dev/exec", { method: "POST", body: "x" })).status, 415);
      assertEquals((await sbx.api("POST", "/vms/dev/exec", { command: "x".repeat(200_000) })).status, 400);
      assertEquals(
        (await sbx.api("POST", "/vms/dev/exec", { command: "true", env: { A: "\0" } })).status,
        400,
      );
      assertEquals((await sbx.api("POST", "/vms/dev/pause", { now: true })).status, 422);
      assertEquals((await sbx.api("POST", "/vms/nobody/exec", { command: "true" })).status, 404);
    });

    await t.step(
      "files: both ways, in folders, seen by the guest at once also when they are overwritten",
      async () => {
        const local = await Deno.makeTempDir();
        await Deno.writeTextFile(join(local, "a.txt"), "one");
        await sbx.ok("cp", join(local, "a.txt"), "dev:notes/a.txt");
        assertEquals((await exec({ command: "cat notes/a.txt" })).stdout, "one");
        await Deno.writeTextFile(join(local, "a.txt"), "two, and longer");
        await sbx.ok("cp", join(local, "a.txt"), "dev:notes/a.txt");
        assertEquals((await exec({ command: "cat notes/a.txt" })).stdout, "two, and longer");
        await Deno.writeTextFile(join(local, "run.sh"), "#!/bin/sh\necho ran");
        await Deno.chmod(join(local, "run.sh"), 0o755);
        await sbx.ok("cp", join(local, "run.sh"), "dev:run.sh");
        assertEquals((await exec({ command: ["./run.sh"] })).stdout, "ran\n");
        for (const path of ["new/", "n".repeat(300)]) {
          assertEquals(
            (await sbx.fetch(`/vms/dev/files/content?path=${path}`, { method: "POST", body: "x" })).status,
            400,
          );
        }
        await exec({ command: "mkdir -p out/deep && echo guest > out/deep/g.txt" });
        await sbx.ok("cp", "dev:out", join(local, "back"));
        assertEquals(await Deno.readTextFile(join(local, "back/deep/g.txt")), "guest\n");
        await Deno.remove(local, { recursive: true });
      },
    );

    await t.step(
      "files: what a guest makes has the modes that it asked for; records are their user's only",
      async () => {
        await exec({
          command:
            "mkdir modes && cd modes && umask 022 && touch plain && mkdir folder && umask 0 && touch open && " +
            "install -m 4755 /bin/true suid && mkdir -m 1777 shared && umask 077 && touch closed",
        });
        const modeOf = async (path: string) => ((await Deno.stat(path)).mode! & 0o7777).toString(8);
        for (
          const [name, mode] of [
            ["plain", "644"],
            ["folder", "755"],
            ["open", "666"],
            ["suid", "4755"],
            ["shared", "1777"],
            ["closed", "600"],
          ]
        ) assertEquals([name, await modeOf(join(workspace, "modes", name))], [name, mode]);
        assertEquals(await modeOf(workspace), "755");
        // A user of the guest that is not root comes in, and reads what was copied in.
        const local = await Deno.makeTempDir();
        await Deno.mkdir(join(local, "tree/empty"), { recursive: true });
        await Deno.mkdir(join(local, "tree/full"));
        await Deno.writeTextFile(join(local, "tree/full/a"), "for all");
        await Deno.chmod(join(local, "tree/full/a"), 0o644);
        await sbx.ok("cp", join(local, "tree"), "dev:modes/tree");
        await Deno.remove(local, { recursive: true });
        const other = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        const read = await exec({ command: `cd modes/tree && ${other} ls && ${other} cat full/a` });
        assertEquals([read.exit_code, read.stdout], [0, "empty\nfull\nfor all"]);
        const kept = [join(sbx.home, "ledgers", id), sbx.home];
        const records = (await Promise.all(kept.map((dir) =>
          Array.fromAsync(Deno.readDir(dir), ({ name }) =>
            join(dir, name))
        ))).flat().filter((path) => /(session|main)\.db/.test(path));
        assert(records.length >= 2, records.join(" "));
        for (const path of records) assertEquals([path, await modeOf(path)], [path, "600"]);
      },
    );

    await t.step("files: no way out of the workspace, by .. or by a link that the guest makes", async () => {
      await exec({ command: "ln -s /etc/shadow shadow; ln -s / root; mknod disk b 254 0" });
      for (const path of ["../../etc/passwd", "shadow", "root/etc/passwd"]) {
        const { status, body } = await sbx.api(
          "GET",
          `/vms/dev/files/content?path=${encodeURIComponent(path)}`,
        );
        assertEquals([status, body.code], [403, "path.outside_workspace"], path);
      }
      // An absolute path is the guest's own.
      await exec({ command: "echo guest >/etc/sbx-e2e" });
      const own = await sbx.fetch("/vms/dev/files/content?path=/etc/sbx-e2e");
      assertEquals([own.status, await own.text()], [200, "guest\n"]);
      // Only root's virtiofsd can make a device.
      const disk = Deno.uid() === 0 ? 400 : 404;
      assertEquals((await sbx.api("GET", "/vms/dev/files/content?path=disk")).status, disk);
      assertEquals(
        (await sbx.fetch("/vms/dev/files/content?path=root/tmp/x", { method: "POST", body: "x" })).status,
        403,
      );
    });

    await t.step(
      "terminal: a real one, with size, colours and Ctrl-C; who attaches later sees what was printed",
      () => useTerminal(sbx, id, exec),
    );

    await t.step("garbage on the guest's ports harms nobody but its own connection", async () => {
      // It gets no byte. vhost-device-vsock may lose the end of the connection, and the guest waits for it
      // then.
      const attack =
        `const c = await Deno.connect({ transport: "vsock", cid: 2, port: Number(Deno.args[0]) });
        const refused = async () => {
          await c.write(new Uint8Array([0x80, 0, 0, 0, 1, 2, 3]));
          return await c.read(new Uint8Array(9)) === null;
        };
        const waited = new Promise((resolve) => setTimeout(resolve, 5000, true));
        const isReset = (error) => error instanceof Deno.errors.BrokenPipe || error instanceof Deno.errors.ConnectionReset;
        console.log(await Promise.race([refused().catch(isReset), waited]));
        Deno.exit(0);`;
      await sbx.fetch("/vms/dev/files/content?path=attack.js", { method: "POST", body: attack });
      for (const port of ["5000", "5001", "5005"]) {
        const ran = await exec({ command: ["deno", "run", "-A", "--unstable-vsock", "attack.js", port] });
        assertEquals([ran.exit_code, ran.stdout], [0, "true\n"], ran.stderr);
      }
      assertEquals((await exec({ command: "echo alive" })).stdout, "alive\n");
    });

    await t.step("QEMU and its helpers cannot gain privileges", async () => {
      const programs = ["qemu-system", "vhost-device-vsock", ...Deno.uid() === 0 ? ["virtiofsd"] : []];
      const pids = await Promise.all(programs.map(async (program) => (await sbx.pids(program, id))[0]));
      for (const pid of pids) assertStringIncludes(Deno.readTextFileSync(`/proc/${pid}/status`), "Privs:\t1");
    });
    await snapshotSteps(t, sbx);
    await debugSteps(t, sbx, id);

    await t.step("pause and resume; what is not legal now is 409 and says what is", async () => {
      assertEquals(await sbx.ok("pause", "dev"), "paused dev\n");
      const { status, body } = await sbx.api("POST", "/vms/dev/exec", { command: "true" });
      assertEquals([status, body.code], [409, "vm.wrong_state"]);
      assertEquals((await sbx.api("POST", "/vms/dev/start")).status, 409);
      const resumed = await sbx.cli("resume", "nobody", "dev");
      assertEquals([resumed.code, resumed.stdout], [1, "resumed dev\n"]);
      assertEquals((await exec({ command: "echo on" })).stdout, "on\n");
    });

    await t.step("a kernel that is revoked while a VM runs it: info and status say so", async () => {
      const { hashes } = JSON.parse(sbx.read(`sessions/${id}/vm.json`)).assets;
      const revoked = { id: "other", revision: "1.0.0", kernel: hashes.vmlinuz };
      await learn({ dir: sbx.home }, "revoked", revoked);
      const note = "its image is revoked with release 1.0.0";
      assertStringIncludes(await sbx.ok("info", "dev"), note);
      assertStringIncludes((await sbx.cli("status")).stdout, `VM "dev": ${note}`);
      await Deno.remove(join(sbx.home, "release"), { recursive: true });
    });

    await t.step("the service dies: the VM runs on, and a new service finds it", async () => {
      const process = (await sbx.api("GET", "/vms/dev/info")).body.pid;
      Deno.kill(sbx.pid("service"), "SIGKILL");
      assertEquals(await sbx.ok("exec", "dev", "--", "echo", "still here"), "still here\n");
      assertEquals((await sbx.api("GET", "/vms/dev/info")).body.pid, process);
    });

    await t.step("stop, another size and start: disk and workspace stay, the record goes on", async () => {
      await exec({ command: "echo kept > /root/kept; echo shared > shared" });
      await sbx.ok("exec", "dev", "--", "sync");
      assertEquals(await sbx.ok("stop", "dev"), "stopped dev\n");
      // virtiofsd of a user who is not root has a process of its own in its
      // namespace, which ends a moment later.
      await eventually("nothing is left", async () => (await sbx.left(id)).length === 0);
      const { status, body } = await sbx.api("POST", "/vms/dev/exec", { command: "true" });
      assertEquals([status, body.code, body.hint], [
        409,
        "vm.wrong_state",
        "possible now: start, fork, set, delete",
      ]);
      assertEquals(await Deno.readTextFile(join(workspace, "shared")), "shared\n");
      assertEquals(
        await sbx.ok("set", "dev", "--disk", "24G", "--cpus", "1"),
        "dev: 1 CPU, 1 GiB, 24 GiB of disk from its next start: sbx start dev\n",
      );
      const smaller = await sbx.cli("set", "dev", "--disk", "20");
      assertStringIncludes(smaller.stderr, 'the disk of "dev" has 24 GiB: it cannot shrink to 20');
      assertEquals(await sbx.ok("start", "dev"), "started dev\n");
      assertMatch(await sbx.ok("list"), /^dev .* 1 +1 GiB +0\.\d of 24 GiB /m);
      assertStringIncludes(await sbx.ok("info", "dev"), "cold: its disk was enlarged");
      const { stdout } = await exec({ command: "df -BG --output=size / | tail -1; nproc" });
      assertMatch(stdout, /^ *2[34]G\n1\n$/);
      const running = await sbx.api("POST", "/vms/dev/set", { disk_gb: 30 });
      assertEquals([running.status, running.body.code], [409, "vm.wrong_state"]);
      assertEquals((await exec({ command: "cat /root/kept /workspace/shared" })).stdout, "kept\nshared\n");
      const history: HistoryResult["executions"] = (await sbx.api("GET", "/vms/dev/history")).body.executions;
      assert(history.some(({ command, exit_code }) => command === "sync" && exit_code === 0));
    });

    await t.step(
      "QEMU is killed: the VM is Defunct, says why, keeps its logs and leaves nothing running",
      async () => {
        const [qemu] = await sbx.pids("qemu-system", id);
        Deno.kill(qemu, "SIGKILL");
        await eventually(
          "it is Defunct",
          async () => (await sbx.api("GET", "/vms/dev/status")).body.status === "Defunct",
        );
        const { body } = await sbx.api("GET", "/vms/dev/info");
        assertStringIncludes(body.last_error, "SIGKILL");
        assertEquals(body.available_actions, ["start", "set", "delete"]);
        assert((await sbx.ok("logs", "dev")).includes("console.log"));
        await eventually("nothing is left", async () => (await sbx.left(id)).length === 0);
      },
    );

    await t.step("its process is killed while it runs: Defunct, and its machine dies with it", async () => {
      await sbx.api("POST", "/vms/dev/start");
      assertEquals((await exec({ command: "true" })).exit_code, 0);
      assertMatch(
        await sbx.ok("verify", "dev"),
        /The service has witnessed .*\nIt is NOT sealed, so it is proven as far as the service has witnessed it/,
      );
      Deno.kill((await sbx.api("GET", "/vms/dev/info")).body.pid, "SIGKILL");
      await eventually(
        "it is Defunct",
        async () => (await sbx.api("GET", "/vms/dev/status")).body.status === "Defunct",
      );
      await eventually("nothing is left", async () => (await sbx.left(id)).length === 0);
      const isSealed = async () => JSON.parse(await sbx.ok("verify", "dev", "--json")).sealed;
      await eventually("its record is sealed", isSealed);
    });

    await t.step("delete leaves the record and nothing else", async () => {
      await sbx.ok("delete", "dev");
      assertEquals((await sbx.api("GET", "/vms/dev/info")).status, 404);
      assertEquals(await Array.fromAsync(Deno.readDir(join(sbx.home, "sessions"))), []);
      const { events }: { events: DecidedEvent[] } = (await sbx.api("GET", `/sessions/${id}/events`)).body;
      assert(events.some(({ process }) => process?.activity.command === "printenv GREETING"));
    });

    await t.step("a certificate of it verifies elsewhere", () => certifySession(sbx, id));

    await t.step("the record verifies offline, and a changed byte in it is found", async () => {
      const ledger = join(sbx.home, "ledgers", id, "session.db");
      assertStringIncludes(await sbx.ok("verify", id), "events as recorded");
      // The VM's process was killed above: what it wrote last is still in the write-ahead
      // log, over older pages of the file.
      for (const path of [ledger, `${ledger}-wal`]) {
        const bytes = await Deno.readFile(path).catch(() => new Uint8Array());
        const text = new TextDecoder("latin1").decode(bytes);
        for (let at = text.indexOf("printenv"); at >= 0; at = text.indexOf("printenv", at + 1)) {
          bytes[at] ^= 1;
        }
        await Deno.writeFile(path, bytes);
      }
      assertEquals((await sbx.cli("verify", id)).code, 1);
    });
  } finally {
    await sbx.dispose();
  }
});
