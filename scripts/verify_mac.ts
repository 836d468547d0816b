/**
 * The checks of scripts/verify-mac.sh that call the library or the system itself:
 * `verify_mac.ts abilities|floor|life|saved|files|sandbox`. make test-swift runs all but the last two of them
 * on Linux, with the library that boots QEMU.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { ignore } from "../lib/base/error/mod.ts";
import { Calls, cloneTree, DARWIN, enterSandbox, openBeneathBySteps, PosixFolder } from "../ffi/posix/mod.ts";
import { library, refused, until, World } from "../tests/swift/world.ts";

const { console: device, features, lacks } = library.abilities;
const BOOT = `console=${device} panic=-1 sbx_hvc=1 sbx_poweroff=1`;
const bytes = (text: string) => new TextEncoder().encode(text);

const CHECKS: Record<string, () => Promise<void>> = {
  // deno-lint-ignore require-await -- all checks have one type
  async abilities() {
    assert(features.pause && features.shared_folder);
    console.log(JSON.stringify({ features, lacks }));
  },

  async floor() {
    await using world = await World.make({ command_line: `${BOOT} sbx_floor=1` });
    await world.create().start();
    const events = await world.ended;
    assertEquals(events.map(({ state }) => state), ["starting", "running", "stopped"]);
  },

  async life() {
    await using world = await World.make({ command_line: BOOT, ports: [5000] });
    const vm = world.create();
    await vm.start();
    await vm.pause();
    await refused(vm.pause(), "state.invalid");
    await vm.resume();
    await vm.stop();
    assertEquals((await world.ended).at(-1)?.state, "stopped");
    await vm.free();
    await refused(vm.free(), "handle.invalid");
    for (let delay = 0; delay < 100; delay += 20) {
      await using other = await World.make({ command_line: BOOT, ports: [5000] });
      const started = other.create();
      const start = started.start().catch(ignore("it is stopped while it starts"));
      await new Promise((resolve) => setTimeout(resolve, delay));
      await started.stop();
      await start;
    }
  },

  async saved() {
    const folder = await Deno.makeTempDir();
    try {
      {
        await using world = await World.make({ command_line: BOOT });
        const vm = world.create();
        await vm.start();
        await until(() => world.consoleText.includes("Run /init"), "the guest's init");
        await vm.pause();
        await vm.save(folder);
      }
      await using world = await World.make({ command_line: BOOT });
      const vm = world.create();
      await vm.restore(folder);
      await vm.resume();
      // It then waits for a disk that does not exist, and ends.
      assertEquals((await world.ended).at(-1)?.state, "stopped");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },

  /** Values and layouts of macOS in ffi/posix, against what Deno's own calls say. */
  async files() {
    const dir = await Deno.makeTempDir();
    try {
      const calls = new Calls(DARWIN);
      using root = PosixFolder.open(calls, dir);
      {
        using file = root.create(bytes("a"), 0o640);
        file.write(bytes("content"), 0);
        file.setTime(1_000_000_000n, 5n);
      }
      const { mode, size, uid, mtime } = await Deno.stat(join(dir, "a"));
      assertEquals(
        [mode! & 0o777, size, mtime?.getTime()],
        [0o640, 7, 1_000_000_000_000],
        "the mode, on the stack",
      );
      const stat = root.statOf(bytes("a"))!;
      assertEquals([stat.type, stat.mode, stat.size, stat.uid, stat.links], ["file", 0o640, 7, uid, 1]);
      assertEquals(stat.mtime, "1000000000.5");
      await Deno.mkdir(join(dir, "sub/in"), { recursive: true });
      await Deno.symlink("/etc", join(dir, "out"));
      await Deno.symlink("sub/../a", join(dir, "link"));
      assertEquals([...root.names()].map((name) => new TextDecoder().decode(name)).sort(), [
        "a",
        "link",
        "out",
        "sub",
      ]);
      for (const path of ["a", "link", "sub/in"]) {
        using held = openBeneathBySteps(calls, dir, path, false);
        assertEquals((await Deno.stat(held.path)).ino, (await Deno.stat(join(dir, path))).ino, held.path);
      }
      for (const path of ["out/hosts", "../x", "sub/../../x"]) {
        await refused(() => openBeneathBySteps(calls, dir, path, false), "EXDEV");
      }
      for (const path of ["out", "link"]) await refused(() => root.folder(bytes(path)), "ELOOP");
      {
        using held = openBeneathBySteps(calls, dir, "sub", true);
        await Deno.writeTextFile(join(held.path, "new"), "by its number");
      }
      assertEquals(await Deno.readTextFile(join(dir, "sub/new")), "by its number");
      assert(await cloneTree(join(dir, "sub"), join(dir, "clone")), "this folder is on APFS");
      assertEquals(await Deno.readTextFile(join(dir, "clone/new")), "by its number");
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },

  async sandbox() {
    assert(enterSandbox(), "sandbox_init takes the profile");
    const attempts: [what: string, act: () => unknown][] = [
      ["a file", () => Deno.readTextFile("/etc/hosts")],
      ["a new file", () => Deno.writeTextFile("/tmp/sbx-escaped", "")],
      ["a socket", () => Deno.connect({ hostname: "127.0.0.1", port: 22 })],
      ["a listener", () => Deno.listen({ hostname: "127.0.0.1", port: 0 })],
      ["a program", () => new Deno.Command("true").output()],
    ];
    for (const [what, act] of attempts) {
      const error = await Promise.resolve().then(act).then(() => undefined, (error) => error);
      assert(error && !(error instanceof Deno.errors.ConnectionRefused), `${what} is denied: ${error}`);
    }
  },
};

const check = CHECKS[Deno.args[0]];
if (!check) {
  console.error(`verify_mac: one of ${Object.keys(CHECKS).join(", ")}`);
  Deno.exit(2);
}
await check();
// The library's threads would keep the program.
Deno.exit(0);
