/** Reach of an attacker who has taken over the git that is the first to read a guest's pack. */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { landlockVersion } from "../../../ffi/libc/landlock.ts";
import { Git } from "../../../lib/repo/git.ts";

/** Tries everything that it must not do, and prints its successes. */
const ATTACKER = `#!/bin/sh
root=$1
cat "$root/store/kept" "$root/lent/objects/kept"
echo made > "$root/store/new" && mkdir "$root/store/objects/sub" && echo wrote its store
for place in "$root/secret" /etc/passwd /proc/self/environ; do cat "$place" 2>/dev/null && echo "read $place"; done
for place in "$root/other" "$root/lent/objects/new" /tmp/made-by-a-pack; do echo x 2>/dev/null > "$place" && echo "wrote $place"; done
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
      for (const dir of [join(store, "objects/info"), join(lent, "objects"), bin]) {
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
      assertEquals(words.split("\n"), ["store/kept", "lent/objects/kept", "wrote its store", ""]);
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
