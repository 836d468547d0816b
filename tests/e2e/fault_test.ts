/** What goes wrong, and what is left of it: a clear error with a code, and no process, socket or folder. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { generateManifest, installAssets } from "../../lib/asset/mod.ts";
import { home as homeOf } from "../../lib/base/home/mod.ts";
import { currentArch } from "../../lib/profile/mod.ts";
import { limitChild, runChild } from "../helper/child.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const ARCH = currentArch();

Deno.test("faults of the host", async (t) => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("start");

    await t.step("an accelerator that does not work is found out, and said", async () => {
      const { hypervisor } = (await sbx.api("GET", "/system/status")).body;
      assert(["kvm", "tcg"].includes(hypervisor.accelerator));
      assert(hypervisor.reason.length > 10, hypervisor.reason);
    });

    await t.step("a second service on the same home refuses to start, and the first goes on", async () => {
      const second = await sbx.run("sbx-service", []);
      assertEquals(second.code, 1);
      assertStringIncludes(second.stderr, `another sbx-service (pid ${sbx.pid("service")}) runs`);
      assertEquals((await sbx.api("GET", "/version")).status, 200);
    });

    await t.step("a gateway whose port is taken says so", async () => {
      const other = await Sbx.make();
      const { code, stderr } = await other.run("sbx", ["start"], {
        SBX_GATEWAY_PORT: new URL(sbx.base).port,
      });
      assertEquals(code, 1);
      assertStringIncludes(stderr, new URL(sbx.base).port);
      await other.dispose();
    });

    await t.step(
      "names, limits and profiles that are not right are refused before anything exists",
      async () => {
        const refused = async (body: unknown) => {
          const { status, body: { code } } = await sbx.api("POST", "/vms/create", body);
          return [status, code];
        };
        assertEquals(await refused({ name: "a/b" }), [400, "request.invalid"]);
        assertEquals(await refused({ name: "../x" }), [400, "request.invalid"]);
        assertEquals(await refused({ cpus: 9 }), [400, "request.invalid"]);
        assertEquals(await refused({ ram_mb: 255 }), [400, "request.invalid"]);
        assertEquals(await refused({ nmae: "x" }), [422, "request.unknown_field"]);
        assertEquals(await refused({ profile_id: "nope" }), [404, "profile.not_found"]);
        assertEquals(await refused({ from: "nope" }), [404, "vm.not_found"]);
        assertEquals(await refused([1]), [422, "request.malformed"]);
        assertEquals((await sbx.api("GET", "/vms/list")).body.vms, []);
        assertEquals(await Array.fromAsync(Deno.readDir(join(sbx.home, "sessions"))), []);
      },
    );

    await t.step("two at once want one name: one gets it", async () => {
      const answers = await Promise.all([1, 2].map(() => sbx.api("POST", "/vms/create", { name: "twin" })));
      assertEquals(answers.map(({ status }) => status).sort(), [200, 409]);
      await sbx.ok("delete", "twin");
    });

    await t.step("a client that goes away in the middle of `sbx run` takes its VM with it", async () => {
      const client = limitChild(new Deno.Command(join(Deno.cwd(), "bin/sbx"), {
        args: ["run", "--", "sh", "-c", "echo up; sleep 300"],
        env: sbx.env,
        stdout: "piped",
        stderr: "null",
        stdin: "null",
      }).spawn());
      const reader = client.stdout.getReader();
      await reader.read();
      client.kill("SIGKILL");
      await client.status;
      await reader.cancel();
      await eventually(
        "the VM is gone",
        async () => (await sbx.api("GET", "/vms/list")).body.vms.length === 0,
      );
      assertEquals(await Array.fromAsync(Deno.readDir(join(sbx.home, "run/instances"))), []);
    });
  } finally {
    await sbx.dispose();
  }
});

Deno.test("an asset that is not what the manifest says does not boot: 412 with both hashes", async () => {
  await withAssets(async () => {}, async (sbx) => {
    await sbx.ok("start");
    const dir = sbx.env.SBX_ASSETS_DIR;
    const rootfs = (await Array.fromAsync(Deno.readDir(dir), ({ name }) => name)).find((name) =>
      name.startsWith("rootfs-")
    )!;
    using file = await Deno.open(join(dir, rootfs), { write: true });
    await file.seek(1_000_000, Deno.SeekMode.Start);
    await file.write(new Uint8Array([1, 2, 3, 4]));
    const { status, body } = await sbx.api("POST", "/vms/create", { name: "bad" });
    assertEquals([status, body.code], [412, "assets.mismatch"]);
    assertEquals(body.error.match(/[0-9a-f]{64}/g)?.length, 2, body.error);
    assertEquals((await sbx.api("GET", "/vms/list")).body.vms, []);
    await eventually(
      "nothing is left",
      async () => (await Array.fromAsync(Deno.readDir(join(sbx.home, "run/instances")))).length === 0,
    );
  });
});

Deno.test("a guest that never answers: the deadline ends the boot, the VM is Defunct and its logs are kept", async () => {
  const silence = (initrd: Uint8Array) =>
    replace(initrd, "$b mount -t proc proc /proc\n", "echo asleep; $b sleep 99999\n");
  await withAssets(async (dir) => {
    const path = join(dir, ARCH, "initrd.img");
    await Deno.writeFile(path, silence(await Deno.readFile(path)));
  }, async (sbx) => {
    const { code, stderr } = await sbx.cli("create", "mute");
    assertEquals(code, 1);
    assertStringIncludes(stderr, "not ready after 8 seconds");
    const info = (await sbx.api("GET", "/vms/mute/info")).body;
    assertEquals([info.status, info.available_actions], ["Defunct", ["start", "delete"]]);
    assertStringIncludes(await sbx.ok("logs", "mute"), "asleep");
    await eventually("nothing is left", async () => (await sbx.left(info.id)).length === 0);
  }, { SBX_BOOT_DEADLINE_SECS: "8" });
});

Deno.test("no space: the error says so, and neither a part of the file nor a broken VM stays", () =>
  onDisk(16, async (sbx) => {
    await sbx.ok("create", "small");
    const upload = (path: string) =>
      sbx.fetch(`/vms/small/files/content?path=${path}`, {
        method: "POST",
        body: new Uint8Array(9 * 1024 * 1024),
      });
    await upload("big").then((answer) => answer.body?.cancel());
    const answer = await upload("bigger");
    assertEquals([answer.status, (await answer.json()).code], [500, "disk.full"]);
    const { entries } = (await sbx.api("GET", "/vms/small/files/list")).body;
    assertEquals(entries.map(({ path }: { path: string }) => path), ["big"]);
    assertEquals((await sbx.cli("exec", "small", "--", "echo", "alive")).stdout, "alive\n");
    await sbx.ok("delete", "small");
    await sbx.ok("stop");
  }));

Deno.test("a disk that fills up: the VM stands still, everybody says why, and all goes on when there is room", async (t) => {
  await onDisk(24, async (sbx, fill) => {
    await sbx.ok("create", "full");
    const { id } = (await sbx.api("GET", "/vms/full/info")).body;
    const counting = sbx.cli(
      "exec",
      "full",
      "--",
      "sh",
      "-c",
      "for i in $(seq 9); do sleep 1; done; echo counted",
    );

    await t.step("the VM is paused, and who asks for more is told what to do", async () => {
      await fill();
      sbx.cli("exec", "full", "--", "sleep", "1").catch(() => {});
      await eventually("it is paused", async () => (await statusOf(sbx)) === "Paused", 30);
      const { code, stderr } = await sbx.cli("exec", "full", "--", "echo", "no");
      assertEquals(code, 125);
      assertStringIncludes(stderr, '"full" is paused');
      assertStringIncludes(stderr, "disk or its size limit is full");
      assertStringIncludes(stderr, "free some space");
      const resumed = await sbx.cli("resume", "full");
      assertEquals(resumed.code, 1);
      assertStringIncludes(resumed.stderr, "it resumes by itself");
    });

    await t.step("sbx status says so, and that not all is well", async () => {
      const { code, stdout } = await sbx.cli("status");
      assertEquals(code, 1);
      assertStringIncludes(stdout, 'VM "full" is Paused: the ledger');
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
      await eventually("it runs", async () => (await statusOf(sbx)) === "Running", 20);
      assertEquals((await sbx.cli("exec", "full", "--", "echo", "again")).stdout, "again\n");
      await eventually("all is well", async () => (await sbx.cli("status")).code === 0, 10);
      await sbx.ok("stop", "full");
      await sbx.ok("verify", id);
    });
  });
});

Deno.test("a guest that fills the host's disk through its own stands still, and finishes when there is room", () =>
  onDisk(60, async (sbx) => {
    await sbx.ok("create", "full");
    const taken = join(sbx.home, "filled-before");
    await Deno.writeFile(taken, new Uint8Array(45 * 1024 * 1024));
    const writing = sbx.cli(
      ...["exec", "full", "--", "sh", "-c", "head -c 20000000 /dev/urandom >/root/big; sync; echo written"],
    );
    await eventually("it is paused", async () => (await statusOf(sbx)) === "Paused", 40);
    assertStringIncludes(
      await sbx.cli("status").then(({ stdout }) => stdout),
      "has no space left for the guest's disk",
    );
    assertEquals((await sbx.api("POST", "/vms/full/exec", { command: "true" })).body.code, "vm.paused");
    await Deno.remove(taken);
    const { code, stdout, stderr } = await writing;
    assertEquals([code, stdout], [0, "written\n"]);
    assertStringIncludes(stderr, 'sbx: "full" is paused: the host has no space left for the guest');
    assertStringIncludes(stderr, 'sbx: "full" goes on');
    assertEquals((await sbx.cli("exec", "full", "--", "echo", "again")).stdout, "again\n");
  }));

Deno.test("a program that waits for a VM whose ledger is full hears of it, and of its end", async () => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("settings", "set", "ledger.max_size_mb", "1");
    await sbx.ok("create", "full");
    const { workspace } = (await sbx.api("GET", "/vms/full/info")).body;
    const loop = "until [ -e /workspace/enough ]; do sleep 0.2; done; echo over";
    const looping = sbx.cli("exec", "full", "--", "sh", "-c", loop);
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

Deno.test("what is written to a guest that stands still reaches it when it goes on", async () => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("create", "still");
    const waiting = limitChild(new Deno.Command(join(Deno.cwd(), "bin/sbx"), {
      args: ["exec", "still", "--", "sh", "-c", "echo up; sleep 300"],
      env: sbx.env,
      stdout: "piped",
      stderr: "null",
      stdin: "null",
    }).spawn());
    const reader = waiting.stdout.getReader();
    await reader.read();
    await sbx.ok("pause", "still");
    // Who waited goes away: the guest is told to end the program.
    waiting.kill("SIGKILL");
    await waiting.status;
    await reader.cancel();
    await new Promise((resolve) => setTimeout(resolve, 500));
    await sbx.ok("resume", "still");
    const { stdout, code } = await sbx.cli(
      "exec",
      "--timeout",
      "20",
      "still",
      "--",
      "pgrep",
      "-c",
      "-x",
      "sleep",
    );
    assertEquals([stdout, code], ["0\n", 1]);
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
    args: ["-t", "tmpfs", "-o", `size=${megabytes}m`, "sbx-test", home],
  });
  if (!mount.success) throw new Error("this test needs to mount a tmpfs, and so root");
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

/** An sbx with assets of its own, changed before they are hashed and installed. */
async function withAssets(
  change: (dir: string) => Promise<void>,
  work: (sbx: Sbx) => Promise<void>,
  env: Record<string, string> = {},
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-assets-" });
  const image = join(Deno.cwd(), ".cache/image");
  try {
    await runChild("cp", { args: ["-r", "--reflink=auto", join(image, ARCH), join(dir, ARCH)] });
    await change(dir);
    await generateManifest(dir, { binaryVersion: "0.1.0" });
    const assets = join(dir, "installed");
    await installAssets({
      manifestUrl: `file://${dir}/manifest.json`,
      home: homeOf({ get: (name) => ({ SBX_ASSETS_DIR: assets, SBX_HOME: dir })[name] }),
      arch: ARCH,
    });
    const sbx = await Sbx.make({ assets, env });
    try {
      await work(sbx);
    } finally {
      await sbx.dispose();
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** The same bytes with one text for another of the same length: an archive stays one. */
function replace(bytes: Uint8Array, from: string, to: string): Uint8Array {
  assertEquals(from.length, to.length);
  const at = new TextDecoder("latin1").decode(bytes).indexOf(from);
  assert(at > 0);
  const changed = bytes.slice();
  changed.set(new TextEncoder().encode(to), at);
  return changed;
}
