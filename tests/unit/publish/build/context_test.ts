import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { archiveOf, buildKey, readContext, readFiles } from "../../../../lib/publish/build/context.ts";
import { succeed } from "../../../helper/oci.ts";

const INPUTS = { arch: "x86_64", args: {}, secrets: {} } as const;

/** Runs work in a folder with these files. */
async function inFolder(files: Record<string, string>, work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-context-" });
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(join(dir, path, ".."), { recursive: true });
      await Deno.writeTextFile(join(dir, path), text);
    }
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function pathsOf(dir: string, file?: string): Promise<string[]> {
  return (await readContext(dir, { file })).files.map(({ path }) => path);
}

async function keyOf(dir: string, inputs: Partial<Parameters<typeof buildKey>[1]> = {}): Promise<string> {
  return buildKey(await readContext(dir), { ...INPUTS, ...inputs });
}

Deno.test("a context has the files that .dockerignore leaves", () =>
  inFolder({
    Dockerfile: "FROM scratch",
    ".dockerignore": "*.env\nnode_modules\n!node_modules/keep/this\ndist",
    "prod.env": "KEY=1",
    "src/main.c": "x",
    "node_modules/a/b": "x",
    "node_modules/keep/this": "x",
    "dist/out": "x",
  }, async (dir) => {
    assertEquals(await pathsOf(dir), [
      ".dockerignore",
      "Dockerfile",
      "node_modules",
      "node_modules/keep",
      "node_modules/keep/this",
      "src",
      "src/main.c",
    ]);
  }));

Deno.test("the Dockerfile's own ignore file goes before the context's", () =>
  inFolder({
    "dev.Dockerfile": "FROM scratch",
    "dev.Dockerfile.dockerignore": "b",
    ".dockerignore": "a",
    a: "",
    b: "",
  }, async (dir) => {
    const paths = await pathsOf(dir, join(dir, "dev.Dockerfile"));
    assert(paths.includes("a") && !paths.includes("b"), paths.join());
  }));

Deno.test("files that look like secrets stay on the host, and are named", () =>
  inFolder({
    Dockerfile: "FROM scratch",
    ".env": "KEY=1",
    "certs/server.pem": "x",
    ".npmrc": "//registry.npmjs.org/:_authToken=npm_0123456789abcdef",
    "sub/.npmrc": "registry=https://registry.npmjs.org/",
  }, async (dir) => {
    const { files, secretsLeftOut } = await readContext(dir);
    assertEquals(files.map(({ path }) => path), ["Dockerfile", "certs", "sub", "sub/.npmrc"]);
    assertEquals(secretsLeftOut, [".env", ".npmrc", "certs/server.pem"]);
    const all = await readContext(dir, { withSecrets: true });
    assertEquals([all.files.length, all.secretsLeftOut], [7, []]);
  }));

Deno.test("links are kept as links, and pipes are no part of a context", () =>
  inFolder({ Dockerfile: "FROM scratch" }, async (dir) => {
    await Deno.symlink("/etc/passwd", join(dir, "link"));
    await succeed("mkfifo", join(dir, "pipe"));
    const { files } = await readContext(dir);
    assertEquals(files.map(({ path, type, target }) => [path, type, target]), [
      ["Dockerfile", "file", undefined],
      ["link", "symlink", "/etc/passwd"],
    ]);
  }));

/**
 * Runs a change as soon as a path was looked at: another program can make it then,
 * such as a VM's in a live folder.
 */
async function changing<T>(name: string, change: () => Promise<void>, work: () => Promise<T>): Promise<T> {
  const { lstat } = Deno;
  Deno.lstat = async (path) => {
    const info = await lstat(path);
    if (`${path}`.endsWith(`/${name}`)) await change();
    return info;
  };
  try {
    return await work();
  } finally {
    Deno.lstat = lstat;
  }
}

Deno.test("what becomes a link while it is read is not followed, in a folder that a VM writes too", () =>
  inFolder({
    "repo/Dockerfile": "FROM scratch",
    "repo/file": "x",
    "repo/folder/key": "x",
    "repo/.env": "KEY=1",
    "outside/key": "the person's",
  }, async (dir) => {
    const root = join(dir, "repo");
    const swap = (name: string, target: string) => async () => {
      await Deno.remove(join(root, name), { recursive: true });
      await Deno.symlink(target, join(root, name));
    };
    for (const [name, target] of [["folder", "../outside"], ["file", "../outside/key"], ["file", ".env"]]) {
      const { code } = await assertRejects(
        () => changing(name, swap(name, target), () => readContext(root)),
        SbxError,
      );
      assertEquals(code, "build.context_changed", name);
      await Deno.remove(join(root, name));
      await (name === "file" ? Deno.writeTextFile(join(root, name), "x") : Deno.mkdir(join(root, name)));
    }
    const context = await readContext(root);
    await swap("file", "pipe")();
    await succeed("mkfifo", join(root, "pipe"));
    const error = await assertRejects(() => Array.fromAsync(archiveOf(context)), SbxError);
    assertEquals(error.code, "build.context_changed");
  }));

Deno.test("a folder without a Dockerfile, and none at all, are refused", () =>
  inFolder({}, async (dir) => {
    const code = async (path: string, file?: string) =>
      (await assertRejects(() => readContext(path, { file }), SbxError)).code;
    assertEquals(await code(dir), "build.no_dockerfile");
    assertEquals(await code(dir, dir), "build.no_dockerfile");
    assertEquals(await code(join(dir, "none")), "build.context_invalid");
    // A link to a file of the person, such as a key.
    await Deno.symlink("/etc/passwd", join(dir, "Dockerfile"));
    assertEquals(await code(dir), "build.context_invalid");
    assertEquals((await readContext(dir, { file: "/etc/passwd" })).name, "/etc/passwd");
  }));

Deno.test("an ignore file that leads out of the folder, or has no end, is refused unread", () =>
  inFolder({ "repo/Dockerfile": "FROM scratch", "key": "[of another project" }, async (dir) => {
    const path = join(dir, "repo/.dockerignore");
    const refusal = async () => await assertRejects(() => readContext(join(dir, "repo")), SbxError);
    await Deno.symlink("../key", path);
    const { code, message } = await refusal();
    assertEquals([code, message.includes("another project")], ["build.context_invalid", false]);
    await Deno.remove(path);
    await Deno.mkdir(path);
    assertEquals((await refusal()).code, "build.context_invalid");
    await Deno.remove(path);
    await succeed("mkfifo", path);
    assertEquals((await refusal()).code, "build.context_invalid");
    await Deno.remove(path);
    await Deno.writeTextFile(path, "");
    // Its holes take no room.
    await Deno.truncate(path, 8 * 1024 ** 2);
    assertEquals((await refusal()).code, "build.context_invalid");
    await Deno.remove(path);
    await Deno.writeTextFile(join(dir, "repo/ignore"), "a");
    await Deno.symlink("ignore", path);
    await Deno.writeTextFile(join(dir, "repo/a"), "");
    assertEquals(await pathsOf(join(dir, "repo")), [".dockerignore", "Dockerfile", "ignore"]);
  }));

Deno.test("the key of a build depends on each input, and on no time", () =>
  inFolder({ Dockerfile: "FROM scratch", a: "1" }, async (dir) => {
    const key = await keyOf(dir);
    await Deno.utime(join(dir, "a"), 1, 1);
    assertEquals(await keyOf(dir), key);
    const others = [
      await keyOf(dir, { arch: "arm64" }),
      await keyOf(dir, { target: "dev" }),
      await keyOf(dir, { args: { A: "1" } }),
      await keyOf(dir, { args: { A: "2" } }),
      await keyOf(dir, { secrets: { A: "1" } }),
    ];
    await Deno.chmod(join(dir, "a"), 0o755);
    others.push(await keyOf(dir));
    await Deno.writeTextFile(join(dir, "a"), "2");
    others.push(await keyOf(dir));
    await Deno.rename(join(dir, "a"), join(dir, "b"));
    others.push(await keyOf(dir));
    await Deno.writeTextFile(join(dir, "Dockerfile"), "FROM scratch\n");
    others.push(await keyOf(dir));
    assertEquals(new Set([key, ...others]).size, others.length + 1);
    assertEquals(
      await keyOf(dir, { args: { A: "1", B: "2" } }),
      await keyOf(dir, { args: { B: "2", A: "1" } }),
    );
    assertNotEquals(await keyOf(dir, { args: { A: "1" } }), await keyOf(dir, { secrets: { A: "1" } }));
  }));

Deno.test("tar unpacks the archive to the same files", () =>
  inFolder({
    Dockerfile: "FROM scratch",
    "empty": "",
    "block": "x".repeat(512),
    [`${"deep/".repeat(30)}${"n".repeat(120)}`]: "long",
    "ünïcode/ファイル": "names",
  }, async (dir) => {
    await Deno.symlink("t".repeat(150), join(dir, "long link"));
    await Deno.symlink("ziel-ä", join(dir, "odd link"));
    await Deno.chmod(join(dir, "block"), 0o755);
    const context = await readContext(dir);
    const out = await Deno.makeTempDir({ prefix: "sbx-context-" });
    try {
      await Deno.writeFile(join(out, "x.tar"), ReadableStream.from(archiveOf(context)));
      await Deno.mkdir(join(out, "x"));
      await succeed("tar", "-C", join(out, "x"), "-xpf", join(out, "x.tar"));
      const unpacked = await readContext(join(out, "x"));
      assertEquals(unpacked.files, context.files);
    } finally {
      await Deno.remove(out, { recursive: true });
    }
  }));

Deno.test("a file that changes while the build begins ends it", () =>
  inFolder({ Dockerfile: "FROM scratch", a: "1" }, async (dir) => {
    const context = await readContext(dir);
    for (const text of ["2", "11", ""]) {
      await Deno.writeTextFile(join(dir, "a"), text);
      const error = await assertRejects(() => Array.fromAsync(archiveOf(context)), SbxError);
      assertEquals(error.code, "build.context_changed");
    }
  }));

Deno.test("features and their files are part of a build's key; files that look like secrets stay", () =>
  inFolder({ Dockerfile: "FROM scratch", "own/install.sh": "a", "own/.env": "KEY=1" }, async (dir) => {
    const context = await readContext(dir);
    const files = await readFiles(join(dir, "own"));
    assertEquals(files.files.map(({ path }) => path), ["install.sh"]);
    assertEquals(files.secretsLeftOut, [".env"]);
    assertEquals((await readFiles(join(dir, "absent"))).files, []);
    const features = { features: { "./own": {} }, config: ".devcontainer/devcontainer.json", files };
    const keys = [
      context,
      { ...context, features },
      { ...context, features: { ...features, remoteUser: "dev" } },
      { ...context, features: { ...features, features: { "./own": { a: "b" } } } },
      { ...context, features: { ...features, files: await readFiles(join(dir, "absent")) } },
    ].map((each) => buildKey(each, INPUTS));
    assertEquals(new Set(keys).size, keys.length);
    assertEquals(buildKey({ ...context, features: { ...features } }, INPUTS), keys[1]);
  }));
