import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { openBeneath } from "../../../ffi/libc/beneath.ts";
import { readNames } from "../../../ffi/libc/directory.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Files } from "../../../lib/base/files/mod.ts";
import { relativePath, Workspace } from "../../../lib/service/run/workspace.ts";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

async function withWorkspace(
  work: (workspace: Workspace, dir: string, outside: string) => Promise<void>,
): Promise<void> {
  const base = await Deno.makeTempDir();
  const dir = join(base, "workspace");
  const outside = join(base, "outside");
  await Deno.mkdir(dir);
  await Deno.mkdir(outside);
  await Deno.writeTextFile(join(outside, "secret"), "host");
  try {
    await work(new Workspace(dir), dir, outside);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

const text = (value: string) => new Response(value).body!;
const code = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;

Deno.test("paths: what a user may write for a file of the workspace", () => {
  for (const path of ["a/b", "./a/b", "a//b", "/workspace/a/b"]) assertEquals(relativePath(path), "a/b");
  assertEquals(relativePath("/workspace"), "");
  for (const path of ["/etc/passwd", "../a", "a/../../b", "/workspace/../etc", "/workspaces"]) {
    assertEquals(assertThrows(() => relativePath(path), SbxError).code, "path.outside_workspace");
  }
  assertEquals(assertThrows(() => relativePath("a\0b"), SbxError).code, "path.invalid");
});

Deno.test("a written file is read back, and its folders are made", () =>
  withWorkspace(async (workspace, dir) => {
    assertEquals(await workspace.write("a/b/c.txt", text("hello")), 5);
    const { file, size } = await workspace.open("a/b/c.txt");
    assertEquals([size, await new Response(file.readable).text()], [5, "hello"]);
    assertEquals((await workspace.list("", 3)).entries.map(({ path }) => path), ["a", "a/b", "a/b/c.txt"]);
    assertEquals(await Array.fromAsync(Deno.readDir(join(dir, "a/b")), ({ name }) => name), ["c.txt"]);
  }));

Deno.test("links that lead out are neither read nor written through", () =>
  withWorkspace(async (workspace, dir, outside) => {
    await Deno.symlink(outside, join(dir, "out"));
    await Deno.symlink(join(outside, "secret"), join(dir, "file"));
    await Deno.symlink("../outside/secret", join(dir, "relative"));
    for (const path of ["out/secret", "file", "relative"]) {
      assertEquals(await code(() => workspace.open(path)), "path.outside_workspace");
    }
    assertEquals(await code(() => workspace.write("out/new", text("x"))), "path.outside_workspace");
    assertEquals(await code(() => workspace.write("out/deeper/new", text("x"))), "path.outside_workspace");
    assertEquals(await code(() => workspace.list("out")), "path.outside_workspace");
    // Writing over a link replaces the link: what it pointed to stays as it was.
    await workspace.write("file", text("mine"));
    assertEquals(await Deno.readTextFile(join(outside, "secret")), "host");
    assertEquals((await Deno.lstat(join(dir, "file"))).isSymlink, false);
  }));

Deno.test("links within the workspace are followed, loops are refused, listings show links and do not follow them", () =>
  withWorkspace(async (workspace, dir) => {
    await workspace.write("sub/f", text("x"));
    await Deno.symlink("sub", join(dir, "in"));
    await Deno.symlink("loop", join(dir, "loop"));
    (await workspace.open("in/f")).file.close();
    assertEquals(await code(() => workspace.open("loop")), "path.outside_workspace");
    const types = (await workspace.list("", 5)).entries.map(({ path, type }) => `${path} ${type}`);
    assertEquals(types, ["in symlink", "loop symlink", "sub directory", "sub/f file"]);
  }));

Deno.test("pipes, folders and missing files are errors that say what they are, and a pipe does not hang", () =>
  withWorkspace(async (workspace, dir) => {
    await runChild("mkfifo", { args: [join(dir, "pipe")] });
    await Deno.mkdir(join(dir, "folder"));
    assertEquals(await code(() => workspace.open("pipe")), "file.invalid");
    assertEquals(await code(() => workspace.open("folder")), "file.invalid");
    assertEquals(await code(() => workspace.open("nothing")), "file.not_found");
    assertEquals(await code(() => workspace.write("folder", text("x"))), "file.invalid");
    assertEquals(await code(() => workspace.write("pipe/x", text("x"))), "file.invalid");
    assertEquals(await code(() => workspace.write("", text("x"))), "file.invalid");
  }));

/**
 * A workspace of which a program removes the folder `sub` as soon as a write has
 * opened it for the `turn`th time.
 */
function withRemovals(dir: string, turn: number): Files {
  let opened = 0;
  return new Files(dir, {
    openBeneath(root, path, options) {
      const found = openBeneath(root, path, options);
      if (path === "sub" && ++opened === turn) Deno.removeSync(join(dir, "sub"), { recursive: true });
      return found;
    },
    readNames,
  });
}

Deno.test("a write into a folder that is removed at the same time is an error that says so", () =>
  withWorkspace(async (_, dir) => {
    for (const turn of [1, 2]) {
      assertEquals(await code(() => withRemovals(dir, turn).write("sub/f", text("x"))), "file.conflict");
      assertEquals(await code(() => withRemovals(dir, turn).makeLink("sub/l", "x")), "file.conflict");
    }
    for (const turn of [1, 2]) {
      assertEquals(
        await code(() => withRemovals(dir, turn).write("sub/below/f", text("x"))),
        "file.conflict",
      );
      assertEquals(await code(() => withRemovals(dir, turn).makeFolder("sub/below")), "file.conflict");
    }
    const removing = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Deno.remove(join(dir, "sub"), { recursive: true });
        controller.enqueue(new TextEncoder().encode("x"));
        controller.close();
      },
      // Nothing is read ahead, when the folder is not there yet.
    }, { highWaterMark: 0 });
    assertEquals(await code(() => new Workspace(dir).write("sub/f", removing)), "file.conflict");
    assertEquals(await Array.fromAsync(Deno.readDir(dir), ({ name }) => name), []);
  }));

Deno.test("a write that fails in the middle leaves the old file and nothing else", () =>
  withWorkspace(async (workspace, dir) => {
    await workspace.write("f", text("old"));
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode("new"));
        controller.error(new Error("the client left"));
      },
    });
    await assertRejects(() => workspace.write("f", broken));
    assertEquals(await Deno.readTextFile(join(dir, "f")), "old");
    assertEquals(await Array.fromAsync(Deno.readDir(dir), ({ name }) => name), ["f"]);
  }));

Deno.test("a file that finds no space is an error, whatever its size, and leaves the old one", () =>
  withWorkspace(async (_, dir) => {
    await Deno.writeTextFile(join(dir, "a"), "old");
    // A limit on file sizes fails writes as a full disk does, for any user.
    const program = `import { Workspace } from ${JSON.stringify(fromRoot("lib/service/run/workspace.ts"))};
      const bytes = new Response(new Uint8Array(Number(Deno.args[1]))).body;
      await new Workspace(Deno.args[0]).write("a", bytes).then(console.log, () => console.log("failed"));`;
    const script = join(dir, "../write.ts");
    await Deno.writeTextFile(script, program);
    const deno = [Deno.execPath(), "run", "--no-check", "-A", "--config", fromRoot("deno.json"), script, dir];
    for (const size of [5000, 9000, 200_000]) {
      const { stdout } = await runChild("sh", {
        args: ["-c", `trap '' XFSZ; ulimit -f 8; exec "$@"`, "sh", ...deno, String(size)],
      });
      assertEquals(new TextDecoder().decode(stdout), "failed\n", `${size} bytes`);
      assertEquals(await Deno.readTextFile(join(dir, "a")), "old");
      assertEquals((await Array.fromAsync(Deno.readDir(dir))).length, 1);
    }
  }));
