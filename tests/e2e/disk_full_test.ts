/** A disk or a ledger without room: an error that says so, VMs that wait, and a record without a gap. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { exists } from "../helper/exists.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

/** A test on a small disk of its own, which only root can mount. */
const test = (name: string, fn: (t: Deno.TestContext) => Promise<void>) =>
  Deno.test({ name, ignore: Deno.uid() !== 0, fn });

test("no space: the error says so, and neither a part of the file nor a broken VM stays", () =>
  onDisk(18, async (sbx) => {
    await sbx.ok("create", "small");
    const upload = (path: string) =>
      sbx.fetch(`/vms/small/files/content?path=${path}`, {
        method: "POST",
        body: new Uint8Array(9 * 1024 * 1024),
      });
    await upload("big").then((answer) => answer.body?.cancel());
    const answer = await upload("bigger");
    assertEquals([answer.status, (await answer.json()).code], [500, "disk.full"]);
    const [source, target] = [await Deno.makeTempFile(), join(sbx.home, "copied")];
    await Deno.writeFile(source, new Uint8Array(9 * 1024 * 1024));
    const copied = await sbx.cli("cp", source, "small:bigger");
    assertEquals(copied.code, 1);
    assertStringIncludes(copied.stderr, "no space left on the disk");
    // A copy leaves more room than this disk has.
    const back = await sbx.cli("cp", "small:big", target);
    assertEquals([back.code, await Deno.lstat(target).catch(() => null)], [1, null]);
    assertStringIncludes(back.stderr, "there is room for 0 B");
    await Deno.remove(source);
    const { entries } = (await sbx.api("GET", "/vms/small/files/list")).body;
    assertEquals(entries.map(({ path }: { path: string }) => path), ["big"]);
    // It stood still where something of its guest could not be recorded.
    await eventually(
      "it is alive",
      async () => (await sbx.cli("exec", "small", "--", "echo", "alive")).stdout === "alive\n",
    );
    await sbx.ok("delete", "small");
    await sbx.ok("stop");
  }));

test("a disk that fills up: the VM stands still, everybody says why, and all goes on when there is room", async (t) => {
  await onDisk(24, async (sbx, fill) => {
    await sbx.ok("create", "full");
    const { id } = (await sbx.api("GET", "/vms/full/info")).body;
    const { workspace } = JSON.parse(await sbx.ok("info", "full", "--json"));
    const count = "touch /workspace/started; for i in $(seq 300); do sleep 1; done; echo counted";
    const counting = sbx.cli("exec", "full", "--", "sh", "-c", count);
    await eventually("it counts", () => exists(join(workspace, "started")));

    await t.step("the VM is paused, and who asks for more is told what to do", async () => {
      await fill();
      sbx.cli("exec", "full", "--", "sleep", "1").catch(() => {});
      await eventually("it is paused", async () => (await statusOf(sbx)) === "Paused");
      const { code, stderr } = await sbx.cli("exec", "full", "--", "echo", "no");
      assertEquals(code, 125);
      assertStringIncludes(stderr, '"full" is paused');
      assertStringIncludes(stderr, "disk or its size limit is full");
      assertStringIncludes(stderr, "free some space");
      const resumed = await sbx.cli("resume", "full");
      assertEquals(resumed.code, 1);
      assertStringIncludes(resumed.stderr, "it resumes automatically");
    });

    await t.step("sbx status says so, and that not all is well", async () => {
      const { code, stdout } = await sbx.cli("status");
      assertEquals(code, 1);
      assertStringIncludes(stdout, 'VM "full" is Paused: the ledger');
    });

    await t.step("a report and a bundle say so too, and leave nothing on the disk", async () => {
      const elsewhere = await Deno.makeTempDir();
      try {
        const [report, bundle] = ["report.json", "bundle.tar.zst"].map((name) => join(elsewhere, name));
        await sbx.ok("debug", "--out", report);
        const { status, disk } = JSON.parse(await Deno.readTextFile(report));
        assertStringIncludes(status.issues.join("\n"), 'VM "full" is Paused: the ledger');
        assertEquals(disk.home.available_bytes, 0);
        await sbx.ok("support-bundle", "--session", id, "--out", bundle);
        for (const [command, name] of [["debug", "r.json"], ["support-bundle", "b.tar.zst"]]) {
          const { code, stderr } = await sbx.cli(command, "--out", join(sbx.home, name));
          assertEquals(code, 1);
          assertStringIncludes(stderr, "on a disk with room");
        }
        const left = await Array.fromAsync(Deno.readDir(sbx.home), ({ name }) => name);
        assertEquals(left.filter((name) => /^[rb]\.|tmp/.test(name)), []);
      } finally {
        await Deno.remove(elsewhere, { recursive: true });
      }
    });

    await t.step("the service answers, and one that is started then does too", async () => {
      await sbx.ok("list");
      Deno.kill(sbx.pid("service"), "SIGKILL");
      await fill();
      assertStringIncludes(await sbx.ok("list"), "Paused");
    });

    await t.step("a gateway that cannot start for want of room says that", async () => {
      const gateway = sbx.pid("gateway");
      Deno.kill(gateway, "SIGTERM");
      await eventually("it has ended", () => Deno.lstat(`/proc/${gateway}`).then(() => false, () => true));
      await fill();
      // A log that ends with a block has no room for the gateway's last words either.
      const log = join(sbx.home, "logs/gateway.log");
      const { size } = await Deno.stat(log);
      await Deno.writeFile(log, new Uint8Array((4096 - size % 4096) % 4096).fill(10), { append: true });
      const { code, stderr } = await sbx.cli("list");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "sbx-gateway did not start: no space left on the disk of");
    });

    await t.step("the program whose service was killed was told that", async () => {
      const { code, stderr } = await counting;
      assertEquals(code, 125);
      assertStringIncludes(stderr, 'sbx: "full" is paused');
      assertStringIncludes(stderr, "the service went away while the program ran");
    });

    await t.step("with room, the VM goes on by itself, and its record has no gap", async () => {
      for (const path of await filled(sbx.home)) await Deno.remove(path);
      await sbx.ok("list");
      await eventually("it runs", async () => (await statusOf(sbx)) === "Running");
      assertEquals((await sbx.cli("exec", "full", "--", "echo", "again")).stdout, "again\n");
      await eventually("all is well", async () => (await sbx.cli("status")).code === 0);
      await sbx.ok("stop", "full");
      await sbx.ok("verify", id);
    });
  });
});

test("room is kept for the record: on a full disk resume lets the VM go on, and its end is recorded", () =>
  onDisk(200, async (sbx, fill) => {
    await sbx.ok("create", "full");
    const { id } = (await sbx.api("GET", "/vms/full/info")).body;
    const reserve = join(sbx.home, "sessions", id, "reserve");
    await eventually("the room is kept", async () => {
      return (await Deno.stat(reserve).catch(() => null))?.size === 8 * 1024 * 1024;
    });
    await fill();
    await eventually("it is paused", async () => {
      sbx.api("POST", "/vms/full/exec", { command: `true ${"x".repeat(100_000)}` }).catch(() => {});
      return (await statusOf(sbx)) === "Paused";
    });
    const { stderr } = await sbx.cli("exec", "full", "--", "true");
    assertStringIncludes(stderr, "sbx resume");
    assertEquals(await sbx.ok("resume", "full"), "resumed full\n");
    assertEquals((await sbx.cli("exec", "full", "--", "echo", "on")).stdout, "on\n");
    await sbx.ok("stop", "full");
    assertEquals(JSON.parse(await sbx.ok("verify", id, "--json")).sealed, true);
    assertEquals(await Deno.stat(reserve).catch(() => null), null);
  }));

test("a guest that fills the host's disk through its own stands still, and finishes when there is room", () =>
  onDisk(60, async (sbx) => {
    await sbx.ok("create", "full");
    const taken = join(sbx.home, "filled-before");
    await Deno.writeFile(taken, new Uint8Array(45 * 1024 * 1024));
    // One program writes and flushes: the begin of another one would be recorded on the full disk.
    const line = "dd if=/dev/urandom of=/root/big bs=1M count=20 conv=fsync; echo written";
    const writing = sbx.cli("exec", "full", "-c", line);
    await eventually("it is paused", async () => (await statusOf(sbx)) === "Paused");
    // The same disk may have had no room for a row of the record a moment before.
    await eventually("status says why", async () => {
      return (await sbx.cli("status")).stdout.includes("has no space left for the guest's disk");
    });
    assertEquals((await sbx.api("POST", "/vms/full/exec", { command: "true" })).body.code, "vm.paused");
    await Deno.remove(taken);
    const { code, stdout, stderr } = await writing;
    assertEquals([code, stdout], [0, "written\n"]);
    assertStringIncludes(stderr, 'sbx: "full" is paused: ');
    assertStringIncludes(stderr, 'sbx: "full" goes on');
    assertEquals((await sbx.cli("exec", "full", "--", "echo", "again")).stdout, "again\n");
  }));

Deno.test("a program that waits for a VM whose ledger is full hears of it, and of its end", async () => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("settings", "set", "ledger.max_size_mb", "1");
    await sbx.ok("create", "full");
    const { workspace } = (await sbx.api("GET", "/vms/full/info")).body;
    const loop = "touch /workspace/started; until [ -e /workspace/enough ]; do sleep 0.2; done; echo over";
    const looping = sbx.cli("exec", "full", "--", "sh", "-c", loop);
    await eventually("the program runs", () => exists(join(workspace, "started")));
    await eventually("it is paused", async () => {
      if ((await statusOf(sbx)) === "Paused") return true;
      // A hundred kilobytes of record.
      sbx.api("POST", "/vms/full/exec", { command: `true ${"x".repeat(100_000)}` });
      return false;
    });
    await sbx.ok("settings", "set", "ledger.max_size_mb", "200");
    await Deno.writeTextFile(join(workspace, "enough"), "");
    const { stdout, stderr, code } = await looping;
    assertEquals([stdout, code], ["over\n", 0]);
    assertStringIncludes(stderr, 'sbx: "full" is paused');
    assertStringIncludes(stderr, "raise ledger.max_size_mb");
    assertStringIncludes(stderr, 'sbx: "full" goes on');
  } finally {
    await sbx.dispose();
  }
});

async function statusOf(sbx: Sbx): Promise<string> {
  return (await sbx.api("GET", "/vms/full/status")).body.status;
}

/** An sbx whose home is on a disk of its own; `fill` leaves no room on it. */
async function onDisk(
  megabytes: number,
  work: (sbx: Sbx, fill: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const mount = await runChild("mount", {
    args: ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0700`, "sbx-test", home],
  });
  if (!mount.success) throw new Error("mounting a tmpfs failed");
  const sbx = await Sbx.make({ home });
  const fill = async () => {
    using file = await Deno.open(join(home, `filled-${crypto.randomUUID()}`), { write: true, create: true });
    const nothing = new Uint8Array(4096);
    while (await file.write(nothing).catch(() => 0)) { /* until there is no room */ }
  };
  try {
    await work(sbx, fill);
  } finally {
    for (const path of await filled(home)) await Deno.remove(path);
    await sbx.cli("stop", "--all");
    await runChild("umount", { args: ["--lazy", home] });
    await Deno.remove(home, { recursive: true });
  }
}

async function filled(home: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(home), ({ name }) => name);
  return names.filter((name) => name.startsWith("filled-")).map((name) => join(home, name));
}
