/** Faults, and their remains: a clear error with a code, and no process, socket or folder. */
import { currentArch } from "../../lib/base/arch/mod.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { generateManifest, installAssets } from "../../lib/release/asset/mod.ts";
import { home as homeOf } from "../../lib/base/home/mod.ts";
import { runChild } from "../helper/child.ts";
import { exists } from "../helper/exists.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const ARCH = currentArch();

Deno.test("faults of the host", async (t) => {
  const sbx = await Sbx.make({ spare: false });
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
        assertEquals(await refused({ cpus: 65 }), [400, "request.invalid"]);
        if (navigator.hardwareConcurrency < 64) {
          assertEquals(await refused({ cpus: 64 }), [400, "vm.too_large"]);
        }
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

    await t.step(
      "`sbx run` ends with its program; the service removes the VM, and the next one has room",
      async () => {
        await sbx.ok("settings", "set", "vm.resources.max_concurrent_vms", "1");
        assertEquals((await sbx.ok("run", "--", "echo", "one")).trim(), "one");
        for (const word of ["two", "three"]) {
          assertStringIncludes(await runToExit(sbx, word), btoa(`${word}\n`));
        }
        await eventually(
          "the VMs are gone",
          async () => (await sbx.api("GET", "/vms/list")).body.vms.length === 0,
        );
        assertEquals(await Array.fromAsync(Deno.readDir(join(sbx.home, "run/instances"))), []);
        const sessions = JSON.parse(await sbx.ok("sessions", "--json"));
        assertEquals(sessions.sessions.filter(({ ended_at }: { ended_at?: string }) => !ended_at), []);
        await sbx.ok("settings", "reset", "vm.resources.max_concurrent_vms");
      },
    );

    await t.step("a VM that cannot be removed after its program says so", async () => {
      const sessions = join(sbx.home, "sessions");
      const before = new Set(
        (await sbx.api("GET", "/vms/list")).body.vms.map(({ id }: { id: string }) => id),
      );
      const wait = "touch /workspace/started; until [ -e /workspace/go ]; do sleep 0.1; done";
      const run = sbx.ok("run", "--", "sh", "-c", wait);
      const running = async () =>
        (await sbx.api("GET", "/vms/list")).body.vms
          .find(({ id, status }: { id: string; status: string }) => !before.has(id) && status === "Running");
      await eventually("it runs", async () => await running() !== undefined);
      const { id, name } = await running();
      await eventually("its program runs", () => exists(join(sessions, id, "workspace/started")));
      await Deno.rename(sessions, join(sbx.home, "moved"));
      await Deno.writeTextFile(sessions, "no folder");
      await Deno.writeTextFile(join(sbx.home, "moved", id, "workspace/go"), "");
      await run;
      await eventually("status says so", async () => {
        const { stdout } = await sbx.cli("status");
        return stdout.includes(`"${name}"`) && stdout.includes("it was not removed after its program");
      });
      await Deno.remove(sessions);
      await Deno.rename(join(sbx.home, "moved"), sessions);
      await sbx.ok("delete", name);
    });

    await t.step("a client that goes away in the middle of `sbx run` takes its VM with it", async () => {
      const client = sbx.follow("run", "--", "sh", "-c", "echo up; sleep 300");
      await client.printed("up");
      await client.kill();
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
    assertStringIncludes(stderr, "not ready after 20 seconds");
    const info = (await sbx.api("GET", "/vms/mute/info")).body;
    assertEquals([info.status, info.available_actions], ["Defunct", ["start", "set", "delete"]]);
    assertStringIncludes(await sbx.ok("logs", "mute"), "asleep");
    await eventually("nothing is left", async () => (await sbx.left(info.id)).length === 0);
  }, { SBX_BOOT_DEADLINE_SECS: "20" });
});

Deno.test("what is written to a guest that stands still reaches it when it goes on", async () => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("create", "still");
    const waiting = sbx.follow("exec", "still", "--", "sh", "-c", "echo up; sleep 300");
    await waiting.printed("up");
    await sbx.ok("pause", "still");
    // Who waited goes away: the guest is told to end the program.
    await waiting.kill();
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

/** Runs `echo`, and leaves when it has ended, as `sbx run` does. @returns the events up to then */
async function runToExit(sbx: Sbx, word: string): Promise<string> {
  const headers = { accept: "text/event-stream" };
  const response = await sbx.fetch("/run", { method: "POST", headers, json: { command: ["echo", word] } });
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.includes("event: exit\n")) break;
  }
  return text;
}
