/**
 * A folder of the host shared live, against root of the guest: what git on the host
 * runs, and secrets, stay the host's.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { exists } from "../../helper/exists.ts";
import { eventually, Sbx } from "../../helper/sbx.ts";

/**
 * Ways to a repository whose configuration or hooks are the guest's; each ends with a status that is not 0.
 */
const WAYS = [
  "mkdir .git",
  "mkdir src/.git",
  "mkdir src/.GIT",
  "mkdir 'src/git~1'",
  "mkdir 'src/.git '",
  "mkdir src/.hg",
  "touch src/.git",
  "mkfifo src/.git",
  "ln -s /root/own/.git src/.git",
  "ln src/a.txt src/.git",
  "cp -r /root/own/.git src/.git",
  "mv .git y",
  "rm -rf .git",
  "rmdir .git",
  "mv src .git",
  "mv nested/.git src/.git",
  "cat nested/.git/config",
  "echo 'gitdir: /root/own/.git' >.git",
  "echo x >>.git",
  "truncate -s 0 .git",
  "chmod 666 .git && echo x >>.git",
  `python3 -c 'import os; os.pwrite(os.open(".git", os.O_RDWR), b"x", 0)'`,
  "echo x >nested/.git/hooks/post-checkout",
  "mkdir link && ln -s ../nested/.git link/to && cat link/to/config",
  "mv src .vscode",
  "mkdir .husky",
  "cat .vscode/tasks.json",
  "git init -q src",
  "git init -q --bare src",
  "git init -q --bare src.git",
  "echo 'ref: refs/heads/main' >src/HEAD",
  "mv src/a.txt src/HEAD",
  `python3 -c 'import os; os.open(".git", os.O_CREAT | os.O_WRONLY, dir_fd=os.open("src", os.O_RDONLY))'`,
  `python3 -c 'import ctypes, os; l = ctypes.CDLL(None); exit(l.renameat2(-100, b"src", -100, b".git", 2) != 0 and l.renameat2(-100, b"src", -100, b"src/.git", 1))'`,
  "mknod null c 1 3",
  "cp /bin/true own && chmod 4755 own",
  "cat .env",
  "mv .env z && cat z",
  "ln .env z && cat z",
  "cp .env z",
  "echo x >.env",
  "echo x >z && mv z .env",
  "mv src moved && mv moved src && rm .env",
  "cat /workspace/project/../project/.env",
  "cat sub/id_rsa",
  "cat sub/.config/gh/hosts.yml",
  "cat sub/.config/git/credentials",
  "mv sub/.config c && cat c/git/credentials",
  "mv sub/.config/gh x && cat x/hosts.yml",
  "mv sub/.config/git x && cat x/credentials",
  "mv sub/.config/git/credentials z && cat z",
  "mv sub moved; mv moved/.config/git x && cat x/credentials; s=$?; mv moved sub; exit $s",
  "ln -s ../sub/.config/git link/way && cat link/way/credentials",
  "cp -r sub/.config/git zz",
  `mkdir c; python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(l.renameat2(-100, b"c", -100, b"sub/.config", 2) != 0 and 1)' && cat c/git/credentials`,
  "mkdir _darcs",
  "mkdir src/.pijul",
  "mv src .repo",
  "mkdir .zed",
  "mkdir .helix",
  "mkdir -p node_modules && mv sub node_modules/sub; cat node_modules/sub/id_rsa; s=$?; mv node_modules/sub sub; exit $s",
];

async function git(dir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runChild("git", { args: ["-C", dir, ...args] });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

async function makeProject(dir: string): Promise<void> {
  for (const each of ["src", "sub/.config/gh", "sub/.config/git", ".vscode", "nested"]) {
    await Deno.mkdir(join(dir, each), { recursive: true });
  }
  await git(dir, "init", "-q", "-b", "main");
  await git(join(dir, "nested"), "init", "-q", "-b", "main");
  for (
    const [path, text] of Object.entries({
      "src/a.txt": "one\n",
      ".env": "KEY=secret-of-the-host\n",
      "sub/id_rsa": "secret-of-the-host\n",
      "sub/.config/gh/hosts.yml": "secret-of-the-host\n",
      "sub/.config/git/credentials": "secret-of-the-host\n",
      "sub/tracked.pem": "secret-of-the-host\n",
      ".vscode/tasks.json": "{}\n",
      ".gitignore": ".env\nid_rsa\n.config\nnested\n",
    })
  ) await Deno.writeTextFile(join(dir, path), text);
  await git(dir, "add", "-f", ".gitignore", "src", "sub/tracked.pem", ".vscode");
  await git(dir, "-c", "user.name=P", "-c", "user.email=p@example.com", "commit", "-qm", "first");
}

Deno.test("a folder that is shared live", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const root = await Deno.makeTempDir();
  const dir = join(root, "project");
  const inGuest = (script: string) => sbx.cli("exec", "dev", "-c", `cd /workspace/project && ${script}`);
  try {
    await makeProject(dir);

    await t.step("folders of sbx, of settings, and parts of a repository are refused", async () => {
      for (
        const [each, why] of [[sbx.home, "is of sbx"], ["/", "of"], [join(dir, "src"), "share the whole"]]
      ) {
        const { code, stderr } = await sbx.cli("create", "no", "--live", each);
        assert(code !== 0);
        assertStringIncludes(stderr, why);
      }
      await sbx.api("PATCH", "/settings/edit", { "vm.live_folders": false });
      assertStringIncludes((await sbx.cli("create", "no", "--live", dir)).stderr, "may not have folders");
      await sbx.api("PATCH", "/settings/edit", { "vm.live_folders": true });
      assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, []);
    });

    await t.step("the guest has the files, and a repository of its own with the history", async () => {
      await sbx.ok("create", "dev", "--live", dir);
      const { stdout, stderr } = await inGuest("cat src/a.txt && git log --format=%s && git status --short");
      assertEquals(stdout, "one\nfirst\n", stderr);
      assertMatch(await sbx.ok("info", "dev"), /^live .*project = \/workspace\/project/m);
    });

    await t.step("no way leads to what git or an editor runs on the host, nor to a secret", async () => {
      await sbx.ok(
        "exec",
        "dev",
        "-c",
        "git init -q /root/own && git -C /root/own config core.fsmonitor 'touch /tmp/ran'",
      );
      const before = await git(dir, "config", "--list", "--local");
      for (const way of WAYS) {
        const { code, stdout } = await inGuest(way);
        assert(code !== 0, `${way}\n${stdout}`);
        assert(!stdout.includes("secret-of-the-host"), way);
      }
      const found = await runChild("find", {
        args: [dir, "-iname", ".git*", "-o", "-name", "HEAD", "-o", "-perm", "/6000"],
      });
      const paths = new TextDecoder().decode(found.stdout).trim().split("\n").map((path) =>
        path.slice(dir.length + 1)
      );
      const own = paths.filter((path) => !/^(?:nested\/)?\.git(?:\/|$)/.test(path));
      assertEquals(own, [".gitignore"]);
      assertEquals(await git(dir, "config", "--list", "--local"), before);
      assertEquals(
        (await inGuest("cat .git && git rev-parse --show-toplevel")).stdout,
        "gitdir: /root/.sbx-live/project.git\n/workspace/project\n",
      );
      assertEquals(await Deno.readTextFile(join(dir, ".env")), "KEY=secret-of-the-host\n");
    });

    await t.step("renames that race with each other lead nowhere", async () => {
      const race = `mkdir -p r; ( for i in $(seq 200); do mv r s; mv s r; done ) & for i in $(seq 200); do
        mv r .git && echo GOT; mv r src/.git && echo GOT; cat .env; done 2>/dev/null; wait; rm -rf r s`;
      assertEquals((await inGuest(race)).stdout, "");
    });

    await t.step(
      "what it makes under a secret's name it reads again, and the host's files at once",
      async () => {
        const { stdout, stderr } = await inGuest(
          "echo mine >ca.pem && cat ca.pem && mkdir .aws && echo k >.aws/credentials && cat .aws/credentials && rm -r ca.pem .aws && ls ca.pem",
        );
        assertEquals(stdout, "mine\nk\n", stderr);
        await Deno.writeTextFile(join(dir, "src/host.txt"), "of the host");
        assertEquals((await inGuest("cat src/host.txt && rm src/host.txt")).stdout, "of the host");
      },
    );

    await t.step("what it keeps of names and states gives way to each change of the host", async () => {
      const place = join(dir, "fresh");
      await Deno.mkdir(join(place, "node_modules/m"), { recursive: true });
      for (const name of ["replaced", "removed", "moved", "node_modules/m/replaced"]) {
        await Deno.writeTextFile(join(place, name), "old");
      }
      const cat = (...names: string[]) =>
        inGuest(`cd fresh && for each in ${names.join(" ")}; do cat $each; done 2>&1`);
      const kept = ["replaced", "removed", "moved", "node_modules/m/replaced"];
      await eventually("it has read them", async () => (await cat(...kept)).stdout === "old".repeat(4));
      await inGuest("stat -t fresh fresh/* fresh/node_modules/m");
      const replace = async (name: string) => {
        await Deno.writeTextFile(join(root, "new"), "new and longer");
        await Deno.rename(join(root, "new"), join(place, name));
      };
      await replace("replaced");
      await replace("node_modules/m/replaced");
      await Deno.remove(join(place, "removed"));
      await Deno.rename(join(place, "moved"), join(place, "there"));
      // Without a notice it would show after five minutes, which is longer than this waits.
      await eventually("it reads the new ones", async () => {
        const { stdout } = await cat("replaced", "node_modules/m/replaced", "there");
        return stdout === "new and longernew and longerold";
      });
      await eventually(
        "it has lost the others",
        async () => (await inGuest("ls fresh")).stdout === "node_modules\nreplaced\nthere\n",
      );
      assert((await inGuest("cat fresh/removed")).code !== 0);
      // A folder in the place of another one, and more files than are looked up one by one.
      await Deno.rename(join(place, "node_modules/m"), join(place, "node_modules/old"));
      await Deno.mkdir(join(place, "node_modules/m"));
      for (let at = 0; at < 2000; at++) Deno.writeTextFileSync(join(place, `node_modules/m/${at}`), "");
      await Deno.writeTextFile(join(place, "node_modules/m/replaced"), "third");
      await eventually(
        "it reads the new folder",
        async () => (await cat("node_modules/m/replaced")).stdout === "third",
      );
      await Deno.remove(place, { recursive: true });
    });

    await t.step(
      "programs that watch the folder in the guest see what a program of the host changes",
      async () => {
        const watcher = `const fs = require("fs"); fs.watch("src", (event, name) => {
        const path = "src/" + name;
        const text = fs.existsSync(path) ? fs.readFileSync(path, "utf8").trim() : "gone";
        console.log([name, text, Date.now()].join(" "));
        if (text === "end") process.exit();
      }); fs.writeFileSync("watching", "")`;
        const before = await git(dir, "ls-files", "--stage");
        const watching = inGuest(`cp src/a.txt /tmp/a.txt; timeout 60 node -e '${watcher}'`);
        await eventually("it watches", () => exists(join(dir, "watching")));
        const at = Date.now();
        await Deno.writeTextFile(join(dir, "src/a.txt"), "changed");
        await Deno.writeTextFile(join(dir, "src/.env"), "secret-of-the-host");
        await Deno.writeTextFile(join(dir, "src/last.txt"), "end");
        const { stdout, stderr, code } = await watching;
        const seen = stdout.trim().split("\n").map((line) => line.split(" "));
        assertEquals(
          [code, seen.some(([name, text]) => name === "a.txt" && text === "changed")],
          [0, true],
          stdout + stderr,
        );
        assertEquals(seen.at(-1)!.slice(0, 2), ["last.txt", "end"]);
        assert(!stdout.includes("secret-of-the-host"));
        console.log(`      a watcher of the guest is woken after ${Number(seen[0][2]) - at} ms`);
        await inGuest("cp /tmp/a.txt src/a.txt; rm -f watching src/last.txt");
        await Deno.remove(join(dir, "src/.env"));
        assertEquals(await git(dir, "ls-files", "--stage"), before);
      },
    );

    await t.step("its commits come back as a branch; masked files are what they were", async () => {
      const { code, stderr } = await inGuest(
        "git checkout -q -- . && git clean -fdq -e nested; echo two >src/b.txt && git add -A && git -c user.name=A -c user.email=a@example.com commit -qm agent && git status --short",
      );
      assertEquals(code, 0, stderr);
      assertEquals(await Deno.readTextFile(join(dir, "src/b.txt")), "two\n");
      assertMatch(await sbx.ok("pull", "dev"), /git reset sbx\/dev takes them/);
      assertEquals(await git(dir, "diff", "--name-status", "main", "sbx/dev"), "A\tsrc/b.txt");
    });

    await t.step("sbx sends no files there, and makes no copy of the VM", async () => {
      for (
        const args of [["fork", "dev"], ["suspend", "dev"], ["push", dir, "dev"], [
          "cp",
          dir,
          "dev:/workspace/project/x",
        ]]
      ) {
        const { code, stderr } = await sbx.cli(...args);
        assert(code !== 0, args.join(" "));
        assertMatch(stderr, /folder of this host|itself|of the folder/, args.join(" "));
      }
    });

    await t.step("a link in the place of the folder is not followed at the next start", async () => {
      await sbx.ok("stop", "dev");
      await Deno.rename(dir, join(root, "elsewhere"));
      await Deno.symlink(sbx.home, dir);
      const { code, stderr } = await sbx.cli("start", "dev");
      assert(code !== 0);
      assertStringIncludes(stderr, "cannot be shared live");
      await Deno.remove(dir);
      await Deno.rename(join(root, "elsewhere"), dir);
      await sbx.ok("start", "dev");
      assertEquals((await inGuest("cat src/b.txt; cat .env")).stdout, "two\n");
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(root, { recursive: true });
  }
});
