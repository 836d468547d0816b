/** Reach of an attacker who has taken over the git that is the first to read a guest's pack. */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { landlockVersion } from "../../../ffi/libc/landlock.ts";
import { Git } from "../../../lib/repo/git.ts";

/** Tries everything that it must not do, and prints its successes. */
const ATTACKER = `#!/bin/sh
root=$1
cat "$root/store/kept" "$root/lent/objects/kept"
echo made > "$root/store/objects/pack/new" && echo wrote a pack
for place in "$root/secret" /etc/passwd /proc/self/environ; do cat "$place" 2>/dev/null && echo "read $place"; done
for place in "$root/other" "$root/store/config" "$root/store/info/attributes" "$root/store/objects/info/alternates" "$root/lent/objects/new" /tmp/made-by-a-pack; do echo x 2>/dev/null > "$place" && echo "wrote $place"; done
ln -s / "$root/store/link" 2>/dev/null && echo linked
chmod 777 "$root/store/kept" 2>/dev/null && echo changed a mode
perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) and print "a socket\\n"'
env | grep SBX_TEST_SECRET
exit 0
`;

Deno.test({
  name: "a git that reads a pack reaches its store, and no other file, network or secret",
  ignore: landlockVersion() === 0,
  async fn() {
    const root = await Deno.makeTempDir();
    const path = Deno.env.get("PATH")!;
    try {
      const [store, lent, bin] = ["store", "lent", "tool/bin"].map((name) => join(root, name));
      for (const dir of [join(store, "objects/info"), join(store, "info"), join(lent, "objects"), bin]) {
        await Deno.mkdir(dir, { recursive: true });
      }
      for (const name of ["store/kept", "lent/objects/kept", "secret"]) {
        await Deno.writeTextFile(join(root, name), `${name}\n`, { mode: 0o600 });
      }
      await Deno.writeTextFile(join(store, "objects/info/alternates"), `"${lent}/objects"\n`);
      // In a folder of its own in PATH, as a git that its user has built.
      await Deno.writeTextFile(join(bin, "git"), ATTACKER.replace("$1", root), { mode: 0o700 });
      Deno.env.set("PATH", `${bin}:${path}`);
      Deno.env.set("SBX_TEST_SECRET", "of the host");
      const words = new TextDecoder().decode(await Git.ofStore(store).runConfined(["index-pack"]));
      assertEquals(words.split("\n"), ["store/kept", "lent/objects/kept", "wrote a pack", ""]);
    } finally {
      Deno.env.set("PATH", path);
      Deno.env.delete("SBX_TEST_SECRET");
      await Deno.remove(root, { recursive: true });
    }
  },
});

Deno.test("a confined git that fails says so in its own words, and one that is not there too", async () => {
  const root = await Deno.makeTempDir();
  const path = Deno.env.get("PATH")!;
  const messageOf = (store: string) =>
    Git.ofStore(store).runConfined(["index-pack", "--stdin"], { input: new Uint8Array(4) })
      .then(() => "none", ({ message }: Error) => message);
  try {
    await Git.ofStore(root).run(["init", "--quiet", "--bare", root]);
    assertEquals(await messageOf(root), "git index-pack failed: fatal: early EOF");
    Deno.env.set("PATH", join(root, "empty"));
    assertMatch(await messageOf(root), /^git index-pack failed: .*git: not found$/);
  } finally {
    Deno.env.set("PATH", path);
    await Deno.remove(root, { recursive: true });
  }
});

/** Lists of further folders of objects as people's repositories have them, and a folder that is a link. */
const BORROWING: Record<string, (root: string) => Promise<void>> = {
  "a relative path": (root) => writeAlternates(root, "../../../base/.git/objects"),
  "a path with escapes": (root) => writeAlternates(root, `"${root}/bas\\145/.git/objects"`),
  "folders that are missing, or are no folders": (root) =>
    writeAlternates(root, "/nonexistent/objects", `${root}/base/file`, `${root}/base/.git/objects`),
  "packs on another disk": async (root) => {
    await git(root, "git -C base repack -qad");
    await Deno.rename(join(root, "base/.git/objects/pack"), join(root, "packs"));
    await Deno.symlink(join(root, "packs"), join(root, "base/.git/objects/pack"));
    await writeAlternates(root, `${root}/base/.git/objects`);
  },
};

async function writeAlternates(root: string, ...lines: string[]): Promise<void> {
  await Deno.writeTextFile(join(root, "own/.git/objects/info/alternates"), `${lines.join("\n")}\n`);
}

async function git(root: string, script: string): Promise<Uint8Array<ArrayBuffer>> {
  const name = {
    GIT_AUTHOR_NAME: "a",
    GIT_AUTHOR_EMAIL: "a@b",
    GIT_COMMITTER_NAME: "a",
    GIT_COMMITTER_EMAIL: "a@b",
  };
  const { success, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-ec", script],
    cwd: root,
    env: { ...name, HOME: root },
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return stdout;
}

Deno.test("a confined git reads what a person's repository borrows, however that is written", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  try {
    await git(root, "git init -q base; cd base; seq 1 5000 > file; git add file; git commit -qm one");
    await git(root, "git clone -q --shared base own; git clone -q base work; git init -q --bare store");
    await git(root, "cd work; echo more >> file; git commit -qam two");
    // The pack has the difference from a file of the repository that is borrowed from.
    const list = "printf '%s\n' HEAD ^HEAD~1";
    const pack = await git(root, `cd work; ${list} | git pack-objects -q --thin --revs --stdout`);
    const store = join(root, "store");
    await Deno.writeTextFile(join(store, "objects/info/alternates"), `"${root}/own/.git/objects"\n`);
    for (const [name, borrow] of Object.entries(BORROWING)) {
      await borrow(root);
      const args = ["index-pack", "--stdin", "--fix-thin", "--strict"];
      const words = await Git.ofStore(store).runConfined(args, { input: pack })
        .then((bytes) => new TextDecoder().decode(bytes), ({ message }: Error) => message);
      assertMatch(words, /^pack\t/, name);
      for await (const { name } of Deno.readDir(join(store, "objects/pack"))) {
        await Deno.remove(join(store, "objects/pack", name));
      }
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
