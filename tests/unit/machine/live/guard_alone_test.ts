import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { EACCES, ENOENT, EPERM, Guard, MadeFiles, type Named } from "../../../../lib/machine/live/guard.ts";
import { TOP_NAMES } from "../../../../lib/machine/live/mod.ts";

async function inFolder(
  work: (dir: string, guard: Guard, made: MadeFiles, again: () => Guard) => Promise<void> | void,
  { withSecrets = false, hasGitfile = true } = {},
): Promise<void> {
  const root = await Deno.makeTempDir();
  const dir = join(root, "project");
  try {
    await Deno.mkdir(join(dir, "sub"), { recursive: true });
    const path = join(root, "made");
    const make = (made: MadeFiles) =>
      new Guard({ dir, top: [...TOP_NAMES, "tools"], hasGitfile, withSecrets, made });
    const made = new MadeFiles(path);
    await work(dir, make(made), made, () => make(new MadeFiles(path)));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const look = (folder: string, name: string): Named => ({ folder, name, does: "look" });
const make = (folder: string, name: string): Named => ({ folder, name, does: "make" });
const remove = (folder: string, name: string): Named => ({ folder, name, does: "remove" });

Deno.test("no name of a repository is made, removed or seen, in any spelling", () =>
  inFolder((dir, guard) => {
    const names = [
      ".git",
      ".GIT",
      "git~1",
      ".git ",
      ".git.",
      ".git::$INDEX_ALLOCATION",
      "a\\.git",
      ".g\u00e2\u0080\u008cit",
    ];
    for (const name of [...names, "HEAD", "head", "bare.git", ".hg", ".jj", "_darcs", ".pijul", ".repo"]) {
      for (const folder of [dir, join(dir, "sub")]) {
        assertEquals(guard.decide(make(folder, name)), EPERM, name);
        assertEquals(guard.decide(remove(folder, name)), EPERM, name);
        assertEquals(guard.decideMove("/anything", make(folder, name)), EPERM, name);
        const isGitfile = name === ".git" && folder === dir;
        assertEquals(guard.decide(look(folder, name)), isGitfile ? "gitfile" : ENOENT, name);
      }
    }
    for (const name of [".gitignore", ".github", "git", "HEADER", "git.ts"]) {
      assertEquals(guard.decide(make(dir, name)), "allowed", name);
    }
  }));

Deno.test("without a repository there is no file that leads to one", () =>
  inFolder((dir, guard) => assertEquals(guard.decide(look(dir, ".git")), ENOENT), { hasGitfile: false }));

Deno.test("names at the top are masked there only, in any case", () =>
  inFolder((dir, guard) => {
    for (const name of [".vscode", ".husky", ".zed", ".helix", "tools", ".VSCode"]) {
      assertEquals(guard.decide(make(dir, name)), EPERM, name);
      assertEquals(guard.decide(look(dir, name)), ENOENT, name);
      assertEquals(guard.decide(make(join(dir, "sub"), name)), "allowed", name);
    }
  }));

Deno.test("a path of several names is none of a guest's", () =>
  inFolder((dir, guard) => {
    assertEquals(guard.decide(make(dir, "sub/.git")), EPERM);
    assertEquals(guard.decide(look(dir, "sub/x")), EPERM);
    assertEquals(guard.decide(make(dir, "/run/virtiofsd.pid")), "allowed");
  }));

Deno.test("secrets of the host are neither read, replaced nor moved; the guest's own are its own", () =>
  inFolder(async (dir, guard, made, again) => {
    await Deno.writeTextFile(join(dir, ".env"), "KEY=1");
    await Deno.writeTextFile(join(dir, ".npmrc"), "//registry.npmjs.org/:_authToken=abc");
    await Deno.writeTextFile(join(dir, "sub/.npmrc"), "save-exact=true");
    await Deno.writeTextFile(join(dir, "plain"), "of the guest");
    for (const name of [".env", ".npmrc"]) {
      for (const named of [look(dir, name), make(dir, name), remove(dir, name)]) {
        assertEquals(guard.decide(named), EACCES, `${named.does} ${name}`);
      }
      assertEquals(guard.decideMove(join(dir, "plain"), make(dir, name)), EACCES);
    }
    assertEquals(guard.decide(look(join(dir, "sub"), ".npmrc")), "allowed");
    assertEquals(guard.decide(look(dir, ".env.example")), "allowed");
    assertEquals(guard.decide(look(dir, "missing.pem")), "allowed");

    assertEquals(guard.decide(make(dir, "own.pem")), "made");
    await Deno.writeTextFile(join(dir, "own.pem"), "");
    assertEquals(guard.decide(look(dir, "own.pem")), EACCES, "somebody else made it");
    made.add(join(dir, "own.pem"));
    assertEquals(guard.decideMove(join(dir, "plain"), make(dir, "moved.key")), "allowed");
    await Deno.rename(join(dir, "plain"), join(dir, "moved.key"));
    for (const each of [guard, again()]) {
      assertEquals(each.decide(look(dir, "own.pem")), "allowed");
      assertEquals(each.decide(look(dir, "moved.key")), "allowed");
      assertEquals(each.decide(look(dir, ".env")), EACCES);
    }
    // Another file in its place is the host's.
    await Deno.remove(join(dir, "own.pem"));
    await Deno.writeTextFile(join(dir, "own.pem"), "of the host");
    assertEquals(guard.decide(look(dir, "own.pem")), EACCES);
    // A name that is not UTF-8 cannot be looked at, and is refused.
    assertEquals(guard.decide(make(dir, "\u00ff.pem")), EACCES);
  }));

Deno.test("with secrets only what runs on the host is masked", () =>
  inFolder(async (dir, guard) => {
    await Deno.writeTextFile(join(dir, ".env"), "KEY=1");
    assertEquals(guard.decide(look(dir, ".env")), "allowed");
    assertEquals(guard.decide(make(dir, ".git")), EPERM);
  }, { withSecrets: true }));

Deno.test("secrets by the parts of their path are the host's, also through an open folder", () =>
  inFolder(async (dir, guard, made) => {
    const config = join(dir, "sub/.config");
    await Deno.mkdir(join(config, "gh"), { recursive: true });
    await Deno.mkdir(join(config, "git"));
    await Deno.writeTextFile(join(config, "gh/hosts.yml"), "secret");
    await Deno.writeTextFile(join(config, "git/credentials"), "secret");
    await Deno.writeTextFile(join(dir, "hosts.yml"), "plain");
    using _open = await Deno.open(join(config, "git"));
    const fd = (await Array.fromAsync(Deno.readDir("/proc/self/fd"))).map(({ name }) => name)
      .findLast((name) => linkOf(name) === join(config, "git"));
    for (const folder of [join(config, "git"), `/proc/${Deno.pid}/fd/${fd}`]) {
      for (const name of ["credentials", "CREDENTIALS"]) {
        const verdict = name === "credentials" ? EACCES : "allowed";
        assertEquals(guard.decide(look(folder, name)), verdict, `${folder} ${name}`);
      }
    }
    assertEquals(guard.decide(look(config, "gh")), EACCES, "a folder of secrets");
    assertEquals(guard.decide(look(dir, "hosts.yml")), "allowed");
    assertEquals(guard.decide(look(join(dir, "sub"), ".config")), "allowed");
    // Under another name of a folder above it the file would be readable.
    for (const does of [make, remove]) {
      assertEquals(guard.decide(does(join(dir, "sub"), ".config")), EACCES);
      assertEquals(guard.decide(does(config, "git")), EACCES);
    }
    assertEquals(guard.decide(remove(dir, "sub")), "allowed", "the path ends as before");

    await Deno.mkdir(join(dir, ".config/git"), { recursive: true });
    assertEquals(guard.decide(remove(dir, ".config")), "allowed", "without a secret");
    assertEquals(guard.decide(make(join(dir, ".config/git"), "credentials")), "made");
    await Deno.writeTextFile(join(dir, ".config/git/credentials"), "of the guest");
    made.add(join(dir, ".config/git/credentials"));
    assertEquals(guard.decide(remove(dir, ".config")), "allowed", "the guest's own");
    await Deno.mkdir(join(dir, ".config/git/Credentials"));
    assertEquals(guard.decide(remove(dir, ".config")), EACCES, "in any case");
    assertEquals(guard.decide(look("/proc/1/fd/none", "credentials")), "allowed", "nothing is there");
    assertEquals(guard.decide(remove("/proc/1/fd/none", ".config")), EACCES, "no path, no way");
  }));

function linkOf(fd: string): string | undefined {
  try {
    return Deno.readLinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}
