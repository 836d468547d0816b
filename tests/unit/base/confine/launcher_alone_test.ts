/** Confined programs: the folders that they need, and starts that fail. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { ConfinedLauncher, placesOf, SYSTEM } from "../../../../lib/base/confine/mod.ts";

Deno.test("a program elsewhere gets the tree that it was installed in, and nothing of its person", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  const before = Deno.env.get("HOME");
  const install = async (path: string, mode = 0o755) => {
    await Deno.mkdir(join(root, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(root, path), "", { mode });
  };
  const own = (...dirs: string[]) => {
    const places = placesOf("tool", dirs.map((dir) => dir.startsWith("/") ? dir : join(root, dir)).join(":"));
    assertEquals(places.slice(0, SYSTEM.length), SYSTEM);
    return places.slice(SYSTEM.length).map((place) => place.replace(`${root}/`, ""));
  };
  try {
    Deno.env.set("HOME", join(root, "home"));
    for (const dir of ["opt/git/bin", "data/tools", "home/bin", "home/.local/bin", "cellar/git/2.0/bin"]) {
      await install(join(dir, "tool"));
    }
    await install("plain/tool", 0o644);
    await Deno.mkdir(join(root, "sources/tool"), { recursive: true });
    await Deno.mkdir(join(root, "brew/bin"), { recursive: true });
    await Deno.symlink(join(root, "cellar/git/2.0/bin/tool"), join(root, "brew/bin/tool"));
    assertEquals(own("opt/git/bin"), ["opt/git/bin", "opt/git"]);
    // Beside the programs there is the person's data.
    assertEquals(own("data/tools"), ["data/tools"]);
    assertEquals(own("home/bin"), ["home/bin"]);
    const local = ["bin", "sbin", "lib", "lib64", "libexec"].map((name) => `home/.local/${name}`);
    assertEquals(own("home/.local/bin"), local);
    assertEquals(own("brew/bin"), ["brew/bin", "brew", "cellar/git/2.0/bin", "cellar/git/2.0"]);
    // A shell takes the first one that can be run.
    assertEquals(own("none", "plain", "sources", "opt/git/bin"), ["opt/git/bin", "opt/git"]);
    assertEquals(own("none"), []);
    assertEquals(placesOf("sh", `./bin::${root}/none:/usr/bin`), SYSTEM);
  } finally {
    if (before === undefined) Deno.env.delete("HOME");
    else Deno.env.set("HOME", before);
    await Deno.remove(root, { recursive: true });
  }
});

const openFiles = () => [...Deno.readDirSync("/proc/self/fd")].length;

Deno.test({
  name: "a start for which this process can open no more files leaves none open, and says so",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const libc = Deno.dlopen("libc.so.6", {
      getrlimit: { parameters: ["i32", "buffer"], result: "i32" },
      setrlimit: { parameters: ["i32", "buffer"], result: "i32" },
    });
    const NOFILE = 7;
    const failed = (reason: string) => new Error(reason);
    const launcher = new ConfinedLauncher({
      rights: { run: SYSTEM },
      notConfined: failed,
      notStarted: failed,
    });
    const start = () => launcher.start({ argv: ["true"], cwd: "/", env: { PATH: "/usr/bin:/bin" } });
    const kept = new BigUint64Array(2);
    const taken: Deno.FsFile[] = [];
    try {
      const first = await start();
      assertEquals((await first.status).code, 0);
      for (const stream of [first.stdout, first.stderr]) await stream.cancel();
      await first.stdin.abort();
      const before = openFiles();
      libc.symbols.getrlimit(NOFILE, new Uint8Array(kept.buffer));
      const limit = new BigUint64Array([BigInt(before + 20), kept[1]]);
      libc.symbols.setrlimit(NOFILE, new Uint8Array(limit.buffer));
      let starting: Promise<unknown>;
      try {
        while (true) taken.push(Deno.openSync("/dev/null"));
      } catch {
        // Room for one pipe of three.
        for (const file of taken.splice(-3)) file.close();
        starting = assertRejects(start, Error, "this process can open no more files");
        await starting;
      } finally {
        libc.symbols.setrlimit(NOFILE, new Uint8Array(kept.buffer));
      }
      for (const file of taken.splice(0)) file.close();
      assertEquals(openFiles(), before);
      assert((await (await start()).status).success);
    } finally {
      launcher.close();
      libc.close();
    }
  },
});

Deno.test({
  name: "a program that ends before it has read its input leaves no file open",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const failed = (reason: string) => new Error(reason);
    using launcher = new ConfinedLauncher({
      rights: { run: SYSTEM },
      notConfined: failed,
      notStarted: failed,
    });
    const run = async () => {
      const program = await launcher.start({ argv: ["true"], cwd: "/", env: { PATH: "/usr/bin:/bin" } });
      await program.status;
      const writer = program.stdin.getWriter();
      await assertRejects(() => writer.write(new Uint8Array(1)), Error);
      await assertRejects(() => writer.close());
      for (const stream of [program.stdout, program.stderr]) await stream.cancel();
    };
    await run();
    const before = openFiles();
    await run();
    assertEquals(openFiles(), before);
  },
});
