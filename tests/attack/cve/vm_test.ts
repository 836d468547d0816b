/** Published weaknesses of sandboxes and of agents' permission checks, tried by root of a real VM. One boot. docs/cves.md */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { Sbx } from "../../helper/sbx.ts";

const RULES = `
[profiles.rules.no-git]
action = "block"
match = 'process.activity.executable == "git"'

[profiles.rules.no-change]
action = "block"
match = 'file.activity.operation == "write" && file.activity.path.startsWith("/workspace/fixed/")'
`;

Deno.test("weaknesses of sandboxes and permission checks, in a VM", async (t) => {
  const sbx = await Sbx.make();
  const root = await Deno.makeTempDir();
  const dir = join(root, "project");
  const secret = `secret-${crypto.randomUUID()}`;
  const run = async (command: string) => (await sbx.api("POST", "/vms/dev/exec", { command })).body;
  try {
    await Deno.mkdir(join(dir, "src"), { recursive: true });
    await Deno.writeTextFile(join(dir, ".env"), secret);
    await Deno.writeTextFile(join(root, "outside"), secret);
    await runChild("git", { args: ["init", "-q", dir] });
    await sbx.ok("profile", "copy", "code", "mine");
    const profile = join(sbx.home, "profiles/mine/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + RULES);
    await sbx.ok("create", "dev", "--profile", "mine", "--live", dir);

    await t.step("CVE-2024-21626: no open file of a program or of init leads to the host", async () => {
      const script = `for n in $(seq 0 40); do
          for p in self 1 $(pgrep sbx-pty-agent) $(pgrep -x deno | head -3); do
            cat /proc/$p/fd/$n/../../..${root}/outside /proc/$p/fd/$n/../../../../..${root}/outside /proc/$p/cwd/${root}/outside 2>/dev/null
            (cd /proc/$p/fd/$n 2>/dev/null && cat ./..${root}/outside ../../../..${root}/outside 2>/dev/null)
          done
        done; readlink /proc/self/fd/* | grep -vE '^(/dev/null|pipe:|socket:|/proc/)' | head -3; echo done`;
      const { stdout } = await run(script);
      assert(!stdout.includes(secret), stdout);
      assert(stdout.endsWith("done\n"), stdout);
    });

    await t.step(
      "CVE-2025-31133: a mask does not fail open when what it is made of is replaced",
      async () => {
        const script = `cd /workspace/project; f=$(mktemp); echo other >$f
        rm -f /dev/null; ln -s $f /dev/null; cat .env; mount --bind $f .env; umount .env; cat .env
        mkdir -p /mnt/w; mount -t virtiofs workspace /mnt/w; cat /mnt/w/project/.env; umount -l /workspace/project; cat .env
        rm -f /dev/null; mknod -m 666 /dev/null c 1 3; echo done`;
        const { stdout, stderr } = await run(script);
        assert(!(stdout + stderr).includes(secret), stdout);
        assert(stdout.endsWith("done\n"), stdout + stderr);
        assertEquals(await Deno.readTextFile(join(dir, ".env")), secret);
      },
    );

    await t.step(
      "CVE-2026-25725: a file that is masked cannot be made either while it is not there",
      async () => {
        const names = [".vscode", ".idea", ".husky", ".githooks", "src/.git", ".hg"];
        for (const name of names) {
          await run(
            `cd /workspace/project; mkdir -p ${name}; echo evil >${name}/settings.json; echo evil >${name}`,
          );
        }
        for (const name of names) {
          assertEquals(await Deno.lstat(join(dir, name)).then(() => name, () => undefined), undefined);
        }
      },
    );

    await t.step("CVE-2025-59944: a name in other letters is the name", async () => {
      for (const name of [".VSCode", ".Idea", "src/.GIT", "src/.gIt", "src/GIT~1", ".HG"]) {
        await run(`cd /workspace/project; mkdir -p '${name}'; echo evil >'${name}/x'`);
        assertEquals(await Deno.lstat(join(dir, name)).then(() => name, () => undefined), undefined);
      }
      const { stdout } = await run("cd /workspace/project; cat .ENV .Env sub/ID_RSA 2>/dev/null; true");
      assert(!stdout.includes(secret));
    });

    await t.step(
      "CVE-2025-54795: a program in the text of an allowed one is held like any other",
      async () => {
        for (
          const line of [
            'echo "\\"; git --version; echo \\""',
            "echo $(git --version)",
            "echo x; git --version",
          ]
        ) {
          const { stdout } = await run(line);
          assert(!stdout.includes("git version"), line);
        }
      },
    );

    await t.step("CVE-2025-66032: no spelling of a command passes the rule on its program", async () => {
      const lines = [
        "git$IFS--version",
        "g''it --version",
        "x=gi; ${x}t --version",
        "\\git -v",
        "/usr/bin/g?t --version",
      ];
      for (
        const line of [
          ...lines,
          "eval $(echo Z2l0IC0tdmVyc2lvbg== | base64 -d)",
          "printf 'git --version' | sh",
        ]
      ) {
        const { stdout } = await run(line);
        assert(!stdout.includes("git version"), line);
      }
    });

    await t.step("CVE-2025-64755: a program that is only known as a reader writes no held file", async () => {
      await sbx.fetch("/vms/dev/files/content?path=fixed/a", { method: "POST", body: "fixed\n" }).then((
        answer,
      ) => answer.body?.cancel());
      const lines = [
        "sed -n 'w /workspace/fixed/a' /etc/hostname",
        "echo x | sed 's/x/id >>\\/workspace\\/fixed\\/a/e'",
        "sort -o /workspace/fixed/a /etc/hostname",
        "find /etc/hostname -fprint /workspace/fixed/a",
        "tee /workspace/fixed/a </etc/hostname",
        "dd if=/etc/hostname of=/workspace/fixed/a",
      ];
      for (const line of lines) {
        await run(line);
        assertEquals((await run("cat /workspace/fixed/a")).stdout, "fixed\n", line);
      }
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(root, { recursive: true });
  }
});
