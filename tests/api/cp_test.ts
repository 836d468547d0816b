/** `sbx cp` through the service's routes, on a temporary workspace. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import { dirname, join } from "node:path";
import { download } from "../../cmd/sbx/files/cp_download.ts";
import { Remote, requireRoom } from "../../cmd/sbx/files/cp_remote.ts";
import { upload } from "../../cmd/sbx/files/cp.ts";
import { routeFiles } from "../../cmd/service/routes/files.ts";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/base/error/mod.ts";
import { type Home, home } from "../../lib/base/home/mod.ts";
import { Client } from "../../lib/client/mod.ts";
import { CredentialStore, refOf, storePath } from "../../lib/credential/mod.ts";
import type { Service, Vm } from "../../lib/service/mod.ts";
import { runChild } from "../helper/child.ts";
import { KEY } from "../helper/credential.ts";
import { sh } from "../helper/repository.ts";

interface Fixture {
  /** local folder */
  local: string;
  workspace: string;
  remote: Remote;
  url: string;
  home: Home;
}

const VM = "00000000-0000-4000-8000-000000000001";

async function withVm(run: (fixture: Fixture) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const [local, workspace] = [join(dir, "local"), join(dir, "workspace")];
  await Deno.mkdir(local);
  await Deno.mkdir(workspace);
  const vm = {
    paths: { workspace, brought: join(dir, "brought") },
    state: { state: "Stopped" },
    record: { id: VM },
  } as Vm;
  const app = new Hono();
  const place = home({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
  const records = { decide: () => Promise.resolve({ event_id: "0123456789ab" }) };
  routeFiles(app, { home: place, supervisor: { find: () => vm }, records } as unknown as Service);
  app.get("/vms/demo/info", (context) => context.json({ workspace }));
  app.onError((cause, context) => {
    const error = asSbxError(cause, context.req.path);
    return context.json(errorBody(error), statusOf(error.code) as 500);
  });
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, app.fetch);
  const url = `http://127.0.0.1:${server.addr.port}`;
  // The service's umask (cmd/service/main.ts).
  const before = Deno.umask(0o077);
  try {
    await run({
      local,
      workspace,
      remote: new Remote(new Client(url, undefined, Deno.createHttpClient({})), "demo"),
      url,
      home: place,
    });
  } finally {
    Deno.umask(before);
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
}

async function git(folder: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await runChild("git", {
    args: ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args],
    cwd: folder,
    // Stops git from searching parent folders for a repository.
    env: { GIT_CEILING_DIRECTORIES: join(folder, ".."), GIT_CONFIG_GLOBAL: "/dev/null" },
  });
  const decoder = new TextDecoder();
  if (!success) throw new Error(`git ${args.join(" ")}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

Deno.test("a git repository with an empty refs folder (after git gc) works after a copy in and back", () =>
  withVm(async ({ local, workspace, remote }) => {
    const repository = join(local, "repository");
    await Deno.mkdir(repository);
    await git(repository, "init", "--quiet");
    await Deno.writeTextFile(join(repository, "a.txt"), "one");
    await git(repository, "add", ".");
    await git(repository, "commit", "--quiet", "-m", "first");
    await git(repository, "gc", "--quiet");
    const log = await git(repository, "log", "--oneline");

    assertEquals((await upload(remote, repository, "")).skipped, []);
    assertEquals(await git(join(workspace, "repository"), "log", "--oneline"), log);
    const { skipped, behind } = await download(remote, "repository", join(local, "back"));
    assertEquals([skipped, behind!.every((path) => /^repository\/\.git\/(config$|hooks)/.test(path))], [
      [],
      true,
    ]);
    assertEquals(await git(join(local, "back"), "log", "--oneline"), log);
    assertEquals(await git(join(local, "back"), "status", "--porcelain"), "");
  }));

Deno.test("empty folders are created, also nested ones and the copied folder itself, readable for every user of the guest", () =>
  withVm(async ({ local, workspace, remote }) => {
    await Deno.mkdir(join(local, "tree/empty/deeper"), { recursive: true });
    await Deno.mkdir(join(local, "tree/full"));
    await Deno.writeTextFile(join(local, "tree/full/a"), "a");
    await upload(remote, join(local, "tree"), "in/");
    for (const path of ["in", "in/tree", "in/tree/empty/deeper", "in/tree/full"]) {
      const { isDirectory, mode } = await Deno.stat(join(workspace, path));
      assertEquals([path, isDirectory, mode! & 0o777], [path, true, 0o755]);
    }
    assertEquals((await Deno.stat(join(workspace, "in/tree/full/a"))).mode! & 0o777, 0o600);
    await Deno.mkdir(join(local, "nothing"));
    await upload(remote, join(local, "nothing"), "/workspace/");
    assertEquals((await Deno.stat(join(workspace, "nothing"))).isDirectory, true);
    // A second copy keeps existing folders.
    assertEquals((await upload(remote, join(local, "tree"), "in/")).copied.length, 1);
  }));

Deno.test("a folder is not created through a link out of the workspace, over a file, or with a body", () =>
  withVm(async ({ local, workspace, url }) => {
    await Deno.symlink(local, join(workspace, "out"));
    await Deno.writeTextFile(join(workspace, "file"), "x");
    const make = async (query: string, body?: string) => {
      const response = await fetch(`${url}/vms/demo/files/content?type=directory&${query}`, {
        method: "POST",
        body,
      });
      return [response.status, (await response.json()).code];
    };
    assertEquals(await make("path=out/new"), [403, "path.outside_workspace"]);
    assertEquals(await make("path=out"), [403, "path.outside_workspace"]);
    assertEquals(await make("path=../new"), [403, "path.outside_workspace"]);
    assertEquals(await make("path=file"), [400, "file.invalid"]);
    assertEquals(await make("path=file/new"), [400, "file.invalid"]);
    assertEquals(await make("path=new", "body"), [400, "request.invalid"]);
    assertEquals(await make("path=new&mode=0700"), [400, "request.invalid"]);
    assertEquals(await Array.fromAsync(Deno.readDir(local)), []);
    assertEquals(await make("path=new/"), [200, undefined]);
  }));

Deno.test("files of any size and links are copied in and back, and a clash is said", () =>
  withVm(async ({ local, workspace, remote }) => {
    await sh(
      local,
      "mkdir -p tree/sub; head -c 30000000 /dev/urandom >tree/big; ln -s ../big tree/sub/l; ln -s /etc/x tree/out",
    );
    const { copied, skipped } = await upload(remote, join(local, "tree"), "");
    assertEquals([copied.length, skipped], [3, []]);
    const sum = async (dir: string) => (await sh(dir, "sha1sum <big; readlink sub/l")).trim();
    assertEquals(await sum(join(workspace, "tree")), await sum(join(local, "tree")));
    assertEquals(await Deno.readLink(join(workspace, "tree/out")), "/etc/x");
    const back = await download(remote, "tree", join(local, "back"));
    assertEquals([back.copied.length, back.skipped], [2, ["tree/out"]]);
    assertEquals(await sum(join(local, "back")), await sum(join(local, "tree")));
    await Deno.writeTextFile(join(local, "a"), "new");
    const said = [
      await notes(() => upload(remote, join(local, "a"), "a")),
      await notes(() => upload(remote, join(local, "a"), "a")),
      await notes(() => upload(remote, join(local, "tree"), "")),
      await notes(() => download(remote, "a", join(local, "back/big"))),
      await notes(() => download(remote, "tree/sub", join(local, "back"))),
    ];
    // Of sub alone, its link leads out.
    assertEquals(said.map((lines) => lines.length), [0, 1, 1, 1, 2]);
    assertStringIncludes(said[1][0], '"a" is there and is replaced');
    assertStringIncludes(said[2][0], '"tree" is there: files of the same names are replaced, others stay');
  }));

Deno.test("a file of the host that a link or folder of the workspace is in place of stays where it is", () =>
  withVm(async ({ local, workspace, remote, url }) => {
    await Deno.symlink(local, join(workspace, "out"));
    await Deno.mkdir(join(workspace, "folder"));
    const make = async (path: string, body = "x", query = "") =>
      (await (await fetch(`${url}/vms/demo/files/content?type=symlink&path=${path}${query}`, {
        method: "POST",
        body,
      }))
        .json()).code;
    assertEquals(await make("out/l"), "path.outside_workspace");
    assertEquals(await make("../l"), "path.outside_workspace");
    assertEquals(await make("folder"), "file.invalid");
    assertEquals(await make("l", ""), "file.invalid");
    assertEquals(await make("l", "x".repeat(5000)), "file.invalid");
    assertEquals(await make("l", "x", "&mode=0777"), "request.invalid");
    assertEquals(await make("out", "y"), undefined);
    assertEquals([...Deno.readDirSync(local)].length, 0);
    await remote.writeLink("deep/er/l", "../../folder");
    assertEquals(await Deno.readLink(join(workspace, "deep/er/l")), "../../folder");
  }));

/** Lines that a step writes to standard error. */
async function notes(step: () => Promise<unknown>): Promise<string[]> {
  const lines: string[] = [];
  const before = console.error;
  console.error = (line) => lines.push(line);
  try {
    await step();
  } finally {
    console.error = before;
  }
  return lines;
}

Deno.test("skipped files are reported also on a copy back", () =>
  withVm(async ({ local, workspace, remote }) => {
    await Deno.symlink("/etc/passwd", join(workspace, "link"));
    await Deno.mkdir(join(workspace, "empty"));
    const { copied, skipped } = await download(remote, "", join(local, "back"));
    assertEquals([copied, skipped], [[], ["link"]]);
    assertEquals((await Deno.stat(join(local, "back/empty"))).isDirectory, true);
  }));

Deno.test("the name of a skipped file forges no line of sbx", () =>
  withVm(async ({ local, remote }) => {
    await runChild("sh", {
      args: ["-ec", String.raw`mkdir tree; mkfifo "tree/$(printf 'x\nsbx: done')"`],
      cwd: local,
    });
    const lines = await notes(() => upload(remote, join(local, "tree"), "up"));
    assertEquals(lines.filter((line) => line.startsWith("sbx: done")), []);
    assert(lines.some((line) => line.includes("x sbx: done: a special file")), lines.join("|"));
  }));

Deno.test("names that are not UTF-8 are skipped and named, both ways", () =>
  withVm(async ({ local, workspace, remote }) => {
    const make = String.raw`mkdir -p tree/sub; touch tree/ok "$(printf 'tree/sub/caf\351')"`;
    for (const cwd of [local, workspace]) await runChild("sh", { args: ["-ec", make], cwd });
    const up = await upload(remote, join(local, "tree"), "up");
    assertEquals([up.copied.length, up.skipped], [1, [join(local, "tree/sub/caf\\xe9")]]);
    const down = await download(remote, "tree", join(local, "down"));
    assertEquals([down.copied.length, down.skipped], [1, ["tree/sub/caf\\xe9"]]);
  }));

Deno.test("a tree deeper than one listing is copied whole", () =>
  withVm(async ({ local, workspace, remote }) => {
    const deep = Array.from({ length: 70 }, (_, at) => `d${at}`).join("/");
    await Deno.mkdir(join(workspace, "tree", deep), { recursive: true });
    await Deno.writeTextFile(join(workspace, "tree", deep, "leaf"), "found");
    const { skipped } = await download(remote, "tree", join(local, "tree"));
    assertEquals(skipped, []);
    assertEquals(await Deno.readTextFile(join(local, "tree", deep, "leaf")), "found");
  }));

Deno.test("a .env file is written with refs, its keys are stored for the VM, and all other bytes stay", () =>
  withVm(async ({ local, workspace, remote, home }) => {
    const token = KEY.github;
    const own = "my-own-openai-key#1";
    const text = `# k\xe9ys\r\nexport OPENAI_API_KEY="${own}"\r\nGH=${token} # why\r\nPORT=3000\r\n`;
    const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
    for (const name of [".env", ".env.local", "prod.env"]) {
      await Deno.writeFile(join(local, name), bytes);
      await upload(remote, join(local, name), "");
      const written = latin1(await Deno.readFile(join(workspace, name)));
      assertEquals(
        written,
        text.replace(own, refOf("openai", own)).replace(token, refOf("github", token)),
        name,
      );
    }
    const store = new CredentialStore(storePath(home));
    assertEquals(store.list().map(({ provider, source, vms }) => [provider, source, vms]), [
      ["openai", "captured", [VM]],
      ["github", "captured", [VM]],
    ]);
    await Deno.writeFile(join(local, "env.txt"), bytes);
    await upload(remote, join(local, "env.txt"), "");
    assertEquals(latin1(await Deno.readFile(join(workspace, "env.txt"))), text, "no other file is changed");
  }));

Deno.test("a .env file with a secret is not written while the store cannot be used; one without is", () =>
  withVm(async ({ local, workspace, remote, home }) => {
    const path = storePath(home);
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeTextFile(path, "{", { mode: 0o600 });
    await Deno.writeTextFile(join(local, ".env"), `GITHUB_TOKEN=${KEY.github}\n`);
    const { code } = await assertRejects(() => upload(remote, join(local, ".env"), ""), SbxError);
    assertEquals([code, [...Deno.readDirSync(workspace)].length], ["credential.unreadable", 0]);
    await Deno.writeTextFile(join(local, ".env"), "NODE_ENV=production\n");
    await upload(remote, join(local, ".env"), "");
    assertEquals(await Deno.readTextFile(join(workspace, ".env")), "NODE_ENV=production\n");
  }));

const latin1 = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);

Deno.test("a sparse file of the guest takes no more room on the host than in its workspace", () =>
  withVm(async ({ local, workspace, remote }) => {
    const size = 128 << 20;
    {
      using file = await Deno.open(join(workspace, "disk.img"), { write: true, create: true });
      await file.truncate(size);
      await file.seek(size / 2, Deno.SeekMode.Start);
      await file.write(new TextEncoder().encode("data"));
    }
    const { copied } = await download(remote, "disk.img", join(local, "disk.img"));
    const info = await Deno.stat(join(local, "disk.img"));
    assertEquals([copied[0].size, info.size], [size, size]);
    assert(info.blocks! * 512 <= 1 << 20, `${info.blocks} blocks`);
    using file = await Deno.open(join(local, "disk.img"));
    await file.seek(size / 2, Deno.SeekMode.Start);
    const data = new Uint8Array(4);
    await file.read(data);
    assertEquals(new TextDecoder().decode(data), "data");
    const { body, allocated } = await remote.read("disk.img");
    for await (const _ of body) break;
    assert(allocated! > 0 && allocated! <= 1 << 20);
  }));

Deno.test("a copy that does not fit on the disk is refused before it begins", async () => {
  const error = await assertRejects(() => requireRoom("/tmp", "big.img", 2 ** 62), SbxError, '"big.img" has');
  assertEquals(error.code, "disk.full");
  await requireRoom("/tmp", "small.img", 1);
});
