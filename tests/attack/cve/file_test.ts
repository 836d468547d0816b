/**
 * Published weaknesses of archives, copies and temporary files, tried where sbx moves files between guest and
 * host. docs/design/cves.md
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { download } from "../../../cmd/sbx/files/cp_download.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { writeAtomic } from "../../../lib/base/home/mod.ts";
import { privateTemp } from "../../../lib/base/temp/mod.ts";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { CredentialStore } from "../../../lib/credential/mod.ts";
import { Workspace } from "../../../lib/service/run/workspace.ts";
import { KEY } from "../../helper/credential.ts";
import { type CpFixture, withGuest } from "../../helper/cp_guest.ts";
import { sh } from "../../helper/repository.ts";
import { withSnapshots } from "../../helper/snapshot.ts";
import { whileSwapped } from "../../helper/swapped.ts";

type Entry = [path: string, type: "file" | "symlink" | "directory", target?: string];

/**
 * Copies a folder out of a guest that lists these entries; the content of each file is "evil". Nothing may be
 * made or changed beside the copied folder.
 * @returns the code of the refusal
 */
async function copyOut(fixture: CpFixture, entries: Entry[]): Promise<string | undefined> {
  const { local, guest, remote, lies } = fixture;
  await sh(local, "mkdir -p out-evil; echo precious >secret; echo precious >out-evil/secret");
  const before = await sh(
    local,
    "find . -mindepth 1 -path ./out -prune -o -printf '%p %i %n %l\\n' | sort; cat secret out-evil/*",
  );
  for (const [path, type] of entries) {
    const full = join(guest, path);
    if (type !== "file" || path.includes("..") || path.startsWith("/")) continue;
    await sh(guest, `mkdir -p "$(dirname '${full}')"; echo evil >'${full}'`);
  }
  lies.list = JSON.stringify({
    entries: entries.map(([path, type, target]) => ({
      path,
      type,
      size: 5,
      mode: "0644",
      modified_unix_ms: 0,
      ...(target !== undefined && { target }),
    })),
    truncated: false,
    left_out: [],
    left_out_count: 0,
  });
  const code = await download(remote, guest, join(local, "out")).then(() => undefined, (error) => {
    if (!(error instanceof SbxError)) throw error;
    return error.code;
  });
  const after = await sh(
    local,
    "find . -mindepth 1 -path ./out -prune -o -printf '%p %i %n %l\\n' | sort; cat secret out-evil/*",
  );
  assertEquals(after, before, "nothing beside the copied folder was touched");
  return code;
}

/** Links in a copied folder that lead out of it. */
async function waysOut(local: string): Promise<string> {
  return await sh(
    local,
    'cd out 2>/dev/null || exit 0; find . -type l | while read l; do realpath -m "$l"; done | grep -v "^$PWD/" || :',
  );
}

Deno.test("CVE-2024-12905: a link of a copied folder and then a file through it write nothing outside", () =>
  withGuest(async (fixture) => {
    const code = await copyOut(fixture, [["l", "symlink", "../out-evil"], ["l/secret", "file"]]);
    assertEquals([code, await waysOut(fixture.local)], [undefined, ""]);
    assertEquals(await sh(fixture.local, "cat out/l/secret; stat -c %F out/l"), "evil\ndirectory\n");
  }));

Deno.test("CVE-2025-48387: an entry with a name that leads out makes nothing", () =>
  withGuest(async (fixture) => {
    for (
      const path of [
        "../secret",
        "a/../../secret",
        "/etc/sbx-cve",
        "..",
        "./../secret",
        "a/b/../../../secret",
      ]
    ) {
      assertEquals(await copyOut(fixture, [[path, "file"]]), "guest.failed", path);
      assertEquals(await copyOut(fixture, [[path, "symlink", "x"]]), "guest.failed", path);
    }
  }));

Deno.test("CVE-2025-59343: a link to a folder whose name begins like the copied one's leads out, and is skipped", () =>
  withGuest(async (fixture) => {
    const links: Entry[] = [["a", "symlink", "../out-evil"], ["d/b", "symlink", "../../out-evil/secret"]];
    const absolute: Entry = ["c", "symlink", join(fixture.local, "out-evil")];
    assertEquals(await copyOut(fixture, [...links, absolute]), undefined);
    assertEquals([await waysOut(fixture.local), await sh(fixture.local, "ls -A out")], ["", ""]);
  }));

Deno.test("CVE-2025-4517: a link whose target grows past the longest path before it turns back leads nowhere", () =>
  withGuest(async (fixture) => {
    const long = "d".repeat(247);
    const entries: Entry[] = [];
    let at = "";
    for (const name of "abcdefghijklmnop") {
      entries.push([`${at}${long}`, "directory"], [`${at}${name}`, "symlink", long]);
      at += `${name}/`;
    }
    entries.push([`${at}${"l".repeat(254)}`, "symlink", "../".repeat(16)]);
    entries.push(["escape", "symlink", `${at}${"l".repeat(254)}/../../secret`], ["escape", "file"]);
    assertEquals(await copyOut(fixture, entries), "file.conflict");
    assertEquals(await waysOut(fixture.local), "");
  }));

Deno.test("CVE-2024-12718: modes of a guest's entries change no file outside and set no bits of identity", () =>
  withGuest(async (fixture) => {
    const { local, guest, remote, lies } = fixture;
    await sh(local, "echo precious >secret; chmod 600 secret");
    await sh(guest, "echo evil >f");
    lies.list = JSON.stringify({
      entries: [["l", "symlink", "../secret", "0777"], ["f", "file", undefined, "6777"]].map(
        ([path, type, target, mode]) => ({ path, type, size: 5, mode, modified_unix_ms: 0, target }),
      ),
      truncated: false,
      left_out: [],
      left_out_count: 0,
    });
    await download(remote, guest, join(local, "out")).catch((error) =>
      assertEquals(error.code, "guest.failed")
    );
    assertEquals(await sh(local, "stat -c %a secret; find . -perm /7000"), "600\n");
  }));

Deno.test("CVE-2025-11001: a link with an absolute target is not taken for a relative one", () =>
  withGuest(async (fixture) => {
    for (const target of ["/etc", "C:\\Windows", "\\\\host\\share", "//etc", "/"]) {
      await copyOut(fixture, [["l", "symlink", target], ["l/secret", "file"]]);
      assertEquals(await sh(fixture.local, "readlink out/l || :; rm -rf out"), "", target);
    }
  }));

Deno.test("CVE-2026-23745: no name and no link of a guest makes a copy share a file with the host", () =>
  withGuest(async (fixture) => {
    const { local } = fixture;
    const secret = join(local, "secret");
    await copyOut(fixture, [["hard", "symlink", secret], ["hard", "file"], ["soft", "symlink", secret]]);
    assertEquals(
      await sh(local, "find . -type f -links +1; find out -samefile secret; cat secret"),
      "precious\n",
    );
    assertEquals(await waysOut(local), "");
  }));

Deno.test("CVE-2026-23950: names that some disks take for one are not each other's way out", () =>
  withGuest(async (fixture) => {
    const entries: Entry[] = [
      ["stra\u00dfe", "symlink", "../out-evil"],
      ["strasse/secret", "file"],
      [
        "STRASSE/secret",
        "file",
      ],
      ["e\u0301", "symlink", "../out-evil"],
      ["\u00e9/secret", "file"],
    ];
    assertEquals(await copyOut(fixture, entries), undefined);
    assertEquals([await waysOut(fixture.local), await sh(fixture.local, "find out -type l")], ["", ""]);
  }));

async function withWorkspace(run: (workspace: Workspace, dir: string, outside: string) => Promise<void>) {
  const base = await Deno.makeTempDir();
  const [dir, outside] = [join(base, "workspace"), join(base, "outside")];
  await sh(
    base,
    "mkdir -p workspace/d/sub outside/sub; echo host >outside/f; echo host >outside/sub/f; echo guest >workspace/d/f",
  );
  try {
    await run(new Workspace(dir), dir, outside);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

const ROUNDS = 300;

Deno.test("CVE-2025-53110: a folder whose name begins like the workspace's is outside of it", () =>
  withWorkspace(async (workspace, dir) => {
    await sh(dir, "mkdir ../workspace-evil; echo host >../workspace-evil/f; ln -s ../workspace-evil/f l");
    for (
      const path of [
        "/workspace-evil/f",
        "../workspace-evil/f",
        "/workspace/../workspace-evil/f",
        `${dir}-evil/f`,
        "l",
      ]
    ) {
      const code = await workspace.open(path).then(() => "opened", (error) => error.code);
      assertEquals(code, "path.outside_workspace", path);
      if (path === "l") continue;
      assertEquals(
        await workspace.write(path, new Response("x").body!).catch((error) => error.code),
        "path.outside_workspace",
      );
    }
    assertEquals(await sh(dir, "cat ../workspace-evil/f; ls ../workspace-evil"), "host\nf\n");
  }));

Deno.test("CVE-2025-53109: no link of a workspace leads a reader or a writer out of it", () =>
  withWorkspace(async (workspace, dir, outside) => {
    await sh(
      dir,
      'ln -s ../outside a; ln -s a/sub b; ln -s "$PWD/../outside/f" c; ln -s /proc/self/root/etc/hostname e; mkdir x; ln -s ../.. x/up',
    );
    for (const path of ["a/f", "b/f", "c", "e", "x/up/outside/f", "a/sub/f"]) {
      assertEquals(
        await workspace.open(path).then(() => "opened", (error) => error.code),
        "path.outside_workspace",
        path,
      );
    }
    for (const path of ["a/new", "b/new", "x/up/outside/new", "a/sub/deep/new"]) {
      assertEquals(
        await workspace.write(path, new Response("x").body!).catch((error) => error.code),
        "path.outside_workspace",
        path,
      );
    }
    assertEquals(await sh(outside, "find . -type f | sort; cat f"), "./f\n./sub/f\nhost\n");
  }));

Deno.test("CVE-2024-45310: a folder that is swapped while a file is made in it makes none on the host", () =>
  withWorkspace(async (workspace, dir, outside) => {
    await whileSwapped(dir, outside, async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const path = round % 2 ? `d/new${round}` : `d/sub/deep${round}/new`;
        await workspace.write(path, new Response("x").body!).catch((error) =>
          assert(error instanceof SbxError, String(error))
        );
      }
    });
    assertEquals(await sh(outside, "find . | sort"), ".\n./f\n./sub\n./sub/f\n");
  }));

Deno.test("CVE-2024-23651: a folder that is swapped while a file of it is read shows none of the host's", () =>
  withWorkspace(async (workspace, dir, outside) => {
    const seen = new Set<string>();
    await whileSwapped(dir, outside, async () => {
      for (let round = 0; round < ROUNDS; round++) {
        await workspace.open("d/f").then(
          async ({ file }) => seen.add(await new Response(file.readable).text()),
          (error) => assert(error instanceof SbxError, String(error)),
        );
      }
    });
    assertEquals([...seen].filter((text) => text !== "guest\n"), []);
  }));

Deno.test("CVE-2024-23652: what is removed when a state is put back is the guest's, also behind a link", () =>
  withSnapshots(async ({ workspace, outside, take, restore, sh: inside }) => {
    await inside("mkdir -p d/sub; echo 1 >d/keep");
    const id = await take();
    await sh(outside, "mkdir sub; echo host >new; echo host >keep; echo host >sub/new");
    await inside('rm -r d; ln -s "$1" d');
    await restore(id);
    await inside("echo 2 >d/new; mkdir -p d/sub; echo 2 >d/sub/new");
    await whileSwapped(workspace, outside, async () => {
      for (let round = 0; round < 8; round++) await restore(id).catch(() => {});
    });
    assertEquals(
      await sh(outside, "find . -type f | sort; cat keep new sub/new"),
      "./keep\n./new\n./sub/new\nhost\nhost\nhost\n",
    );
  }));

Deno.test("CVE-2025-68146: a link in the place of a lock or of a file that is replaced cuts no other file", async () => {
  const dir = await Deno.makeTempDir();
  const victim = join(dir, "victim");
  await Deno.writeTextFile(victim, "precious");
  await Deno.symlink(victim, join(dir, "settings.toml"));
  await writeAtomic(join(dir, "settings.toml"), "new");
  assertEquals([await Deno.readTextFile(victim), await Deno.readTextFile(join(dir, "settings.toml"))], [
    "precious",
    "new",
  ]);
  assertEquals((await Deno.lstat(join(dir, "settings.toml"))).isSymlink, false);
  const places = { ca: join(dir, "home/ca"), store: join(dir, "credentials") };
  for (const place of Object.values(places)) await Deno.mkdir(place, { recursive: true, mode: 0o700 });
  await Deno.symlink(victim, join(places.ca, "lock"));
  await Deno.symlink(victim, join(places.store, "store.json.lock"));
  await openCa({ dir: join(dir, "home") });
  await new CredentialStore(join(places.store, "store.json")).add([{
    provider: "openai",
    secret: KEY.openai,
  }]);
  assertEquals(await Deno.readTextFile(victim), "precious");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("CVE-2025-54798: a link in the place of the folder for temporary files is not used", async () => {
  const dir = await Deno.makeTempDir();
  await sh(
    dir,
    `mkdir tmp home; mkdir -m 700 elsewhere; chmod 1777 tmp; ln -s ../elsewhere tmp/sbx-${Deno.uid()}`,
  );
  const env = { get: (name: string) => ({ TMPDIR: join(dir, "tmp"), HOME: join(dir, "home") })[name] };
  const found = privateTemp({ uid: Deno.uid()!, env });
  assert(found.dir !== join(dir, `tmp/sbx-${Deno.uid()}`), JSON.stringify(found));
  assertEquals(await Array.fromAsync(Deno.readDir(join(dir, "elsewhere"))), []);
  await Deno.remove(dir, { recursive: true });
});
