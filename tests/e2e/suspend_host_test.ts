/** What happens to a host while a VM of it is suspended; in Debian trixie by `make test-large`. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { exists } from "../helper/exists.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { suspendTest } from "../helper/suspend.ts";

/** Largest difference between the clocks of guest and host, in `s`, with the time of a command. */
const CLOCK_SECS = 5;
/**
 * Size of a small disk, room on it when it is filled up, and what says that memory is being written; in MiB.
 */
const DISK_MB = 1200;
const LEFT_MB = 4;
const WRITTEN_MB = 8;
/** A request under way when the machine stops is lost in about every second one. */
const ROUNDS = 4;
/** Has two files open, and reads them once the host says so. */
const READ_LATER = `exec 3</workspace/gone 4</workspace/kept; echo begun >/workspace/begun
until [ -e /workspace/go ]; do sleep 0.1; done
cat <&3 || echo "gone: $?"; cat <&4; echo end`;

suspendTest("a VM that was suspended meets a host that has changed", async (t) => {
  const sbx = await Sbx.make();
  const exec = (...argv: string[]) => sbx.ok("exec", "dev", "--", ...argv);
  try {
    await sbx.ok("create", "dev");
    const { workspace } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    const at = (name: string) => join(workspace, name);

    await t.step(
      "files that are gone from its workspace are errors of the programs that use them",
      async () => {
        await exec("sh", "-c", "mkdir d; echo 1 >d/deep; echo 2 >gone; echo 3 >kept; ls -lR . >/dev/null");
        await exec("sh", "-c", `nohup sh -c '${READ_LATER}' >/root/said 2>/dev/null &`);
        await eventually("it has them open", () => exists(at("begun")));
        await sbx.ok("suspend", "dev");
        for (const name of ["d", "gone"]) await Deno.remove(at(name), { recursive: true });
        await Deno.writeTextFile(at("new"), "4\n");
        await sbx.ok("resume", "dev");
        await Deno.writeTextFile(at("go"), "");
        await eventually("it has read them", async () => (await exec("cat", "/root/said")).includes("end"));
        assertEquals(await exec("cat", "/root/said"), "gone: 1\n3\nend\n");
        assertEquals(await exec("sh", "-c", "cat new; ls"), "4\nbegun\ngo\nkept\nnew\n");
      },
    );

    await t.step("a file that a program deleted and has open is an error of that program", async () => {
      const write = "exec 3>/workspace/t; rm /workspace/t; echo begun >/root/begun; " +
        'until [ -e /workspace/on ]; do sleep 0.1; done; echo 1 >&3; echo "$?" >/root/code';
      await exec("sh", "-c", `nohup sh -c '${write}' >/dev/null 2>&1 &`);
      await eventually("it runs", async () => (await exec("ls", "/root")).includes("begun"));
      await sbx.ok("suspend", "dev");
      await sbx.ok("resume", "dev");
      await Deno.writeTextFile(at("on"), "");
      await eventually("it has written", async () => (await exec("ls", "/root")).includes("code"));
      assert((await exec("cat", "/root/code")) !== "0\n");
    });

    // For the guest, a host's clock that was moved by years and its own that was are the same thing.
    for (const date of ["2020-01-01", "2050-01-01"]) {
      await t.step(`its clock is the host's after the resume, whatever it was: ${date}`, async () => {
        await exec("date", "-s", date);
        await sbx.ok("suspend", "dev");
        await sbx.ok("resume", "dev");
        const seconds = Number(await exec("date", "+%s"));
        assert(Math.abs(seconds - Date.now() / 1000) < CLOCK_SECS, `${seconds}`);
      });
    }
  } finally {
    await sbx.dispose();
  }
});

suspendTest(
  "a program that writes to the workspace without a pause writes on after each resume",
  async () => {
    const sbx = await Sbx.make();
    try {
      await sbx.ok("create", "dev");
      const { workspace } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      const write = "exec 3>/workspace/count; n=0; while :; do n=$((n+1)); echo $n >&3; done";
      await sbx.ok("exec", "dev", "--", "sh", "-c", `nohup sh -c '${write}' >/dev/null 2>&1 &`);
      const size = async () => (await Deno.stat(join(workspace, "count"))).size;
      for (let round = 1; round <= ROUNDS; round++) {
        await sbx.ok("suspend", "dev");
        const before = await size();
        await sbx.ok("resume", "dev");
        // No command of the host may help: its programs ask for the workspace too.
        await eventually(`it writes on (${round})`, async () => await size() > before);
      }
    } finally {
      await sbx.dispose();
    }
  },
);

suspendTest("a disk that fills up while a VM is written down leaves the VM as it was", async () => {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const mount = async (...options: string[]) =>
    (await runChild("mount", { args: ["-t", "tmpfs", "-o", options.join(), "sbx-test", home] })).success;
  assert(await mount(`size=${DISK_MB}m,mode=0700`));
  const sbx = await Sbx.make({ home, spare: false });
  /** Of the VM; the room that is kept for its record was given up, and is taken again later. */
  const files = async (id: string) => {
    const names = await Array.fromAsync(Deno.readDir(join(home, "sessions", id)), ({ name }) => name);
    return names.filter((name) => name !== "reserve").sort();
  };
  try {
    await sbx.ok("create", "dev");
    const { id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    await sbx.ok("exec", "dev", "--", "sh", "-c", "echo kept >/dev/shm/kept");
    // Its own disk is full too, before it is back.
    const grow =
      "for n in $(seq 200); do head -c 256K /dev/zero >>/root/grown; sync; done; echo all >/root/all";
    await sbx.ok("exec", "dev", "--", "sh", "-c", `nohup sh -c '${grow}' >/dev/null 2>&1 &`);
    const before = await files(id);
    for (const command of [["suspend", "dev"], ["fork", "dev", "two"]]) {
      const usedBefore = await usedMb(home);
      const running = sbx.cli(...command);
      // The look at the room before it begins finds enough.
      let isOver = false;
      running.finally(() => isOver = true);
      while (!isOver && await usedMb(home) < usedBefore + WRITTEN_MB) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      // Refused where more than that is written meanwhile.
      while (!await mount("remount", `size=${await usedMb(home) + LEFT_MB}m`));
      const { code, stderr } = await running;
      assertEquals(code, 1, `${command[0]}: ${stderr}`);
      assertMatch(stderr, /cannot be (suspended|copied): .*is the disk or the memory full/);
      assert(await mount("remount", `size=${DISK_MB}m`));
      assertEquals(await files(id), before);
      // It stood still where its disk could not be written, or its record.
      await eventually("it runs", async () => {
        return JSON.parse(await sbx.ok("info", "dev", "--json")).status === "Running";
      });
      assertEquals(await sbx.ok("exec", "dev", "--", "cat", "/dev/shm/kept"), "kept\n");
    }
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms.length, 1);
    assertEquals(await Array.fromAsync(Deno.readDir(join(home, "sessions")), ({ name }) => name), [id]);
    await sbx.ok("suspend", "dev");
    await sbx.ok("resume", "dev");
    assertEquals(await sbx.ok("exec", "dev", "--", "cat", "/dev/shm/kept"), "kept\n");
    await eventually("it has written", async () => {
      return (await sbx.ok("exec", "dev", "--", "sh", "-c", "cat /root/all; stat -c %s /root/grown"))
        .includes(`all\n${200 * 256 * 1024}`);
    });
    await sbx.ok("delete", "dev");
    await sbx.ok("verify", id);
  } finally {
    await sbx.cli("stop", "--all");
    await runChild("umount", { args: ["--lazy", home] });
    await Deno.remove(home, { recursive: true });
  }
});

/** What is taken of a disk, in MiB, rounded up. */
async function usedMb(path: string): Promise<number> {
  const { blocks, bfree, bsize } = await statfs(path);
  return Math.ceil((blocks - bfree) * bsize / 2 ** 20);
}
