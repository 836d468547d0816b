/**
 * Published weaknesses of sandboxes and of agents' permission checks, tried by root of a real VM. One boot.
 * docs/design/cves.md
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { limitChild } from "../../helper/child.ts";
import { sh } from "../../helper/repository.ts";
import { machineArguments } from "../../../lib/machine/vm/command.ts";
import { Sbx } from "../../helper/sbx.ts";

const RULES = `
[profiles.rules.no-factor]
action = "block"
match = 'process.activity.executable == "factor"'
`;
const FILE_RULES = `
[profiles.rules.no-change]
action = "block"
match = 'file.activity.operation == "write" && file.activity.path.startsWith("/workspace/fixed/")'
`;

Deno.test("weaknesses of sandboxes and permission checks, in a VM", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const root = await Deno.makeTempDir();
  const dir = join(root, "project");
  const secret = `secret-${crypto.randomUUID()}`;
  const run = async (command: string) => (await sbx.api("POST", "/vms/dev/exec", { command })).body;
  /** What the guest makes in the folder is on the host: the steps that follow attack the folder itself. */
  const mustBeLive = async () => {
    const name = crypto.randomUUID();
    await run(`echo x >/workspace/project/src/${name}`);
    await Deno.remove(join(dir, "src", name));
  };
  try {
    await Deno.mkdir(join(dir, "src"), { recursive: true });
    await Deno.writeTextFile(join(dir, ".env"), secret);
    await Deno.writeTextFile(join(root, "outside"), secret);
    await Deno.writeTextFile(join(dir, "src/a.txt"), "one\n");
    await Deno.writeTextFile(join(dir, ".gitignore"), ".env\n");
    await sh(dir, "git init -q -b main; git add .gitignore src; git commit -qm first");
    await sbx.ok("profile", "copy", "code", "mine");
    const profile = join(sbx.home, "profiles/mine/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + RULES);
    await sbx.ok("create", "dev", "--profile", "mine", "--live", dir);

    await t.step("CVE-2024-21626: no open file of a program or of init leads to the host", async () => {
      const script = `python3 -c '
import os
for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["self"]:
    places = ["cwd", "root"]
    try: places += ["fd/" + name for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError: pass
    for place in places:
        for up in range(9):
            try: print(open(f"/proc/{pid}/{place}/" + "../" * up + "${root.slice(1)}/outside").read())
            except OSError: pass
print("done")'`;
      const { stdout } = await run(script);
      assert(!stdout.includes(secret), stdout);
      assert(stdout.endsWith("done\n"), stdout);
    });

    await t.step(
      "CVE-2025-31133: a mask does not fail open when what it is made of is replaced",
      async () => {
        const script = `cd /workspace/project; f=$(mktemp); echo other >$f
        rm -f /dev/null; ln -s $f /dev/null; cat .env; mount --bind $f .env; umount .env; cat .env
        mkdir -p /mnt/w; mount -t virtiofs workspace /mnt/w; cat /mnt/w/project/.env; unshare -m sh -c 'umount -l /workspace/project; cat /workspace/project/.env .env'
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
        await mustBeLive();
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
      await mustBeLive();
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
            'echo "\\"; factor 12; echo \\""',
            "echo $(factor 12)",
            "echo x; factor 12",
          ]
        ) {
          const { stdout } = await run(line);
          assert(!stdout.includes("2 2 3"), line);
        }
      },
    );

    await t.step("CVE-2025-66032: no spelling of a command passes the rule on its program", async () => {
      const lines = [
        "factor${IFS}12",
        "fac''tor 12",
        "x=fac; ${x}tor 12",
        "\\factor 12",
        "/usr/bin/fact?r 12",
      ];
      for (
        const line of [
          ...lines,
          "eval $(echo ZmFjdG9yIDEy | base64 -d)",
          "printf 'factor 12' | sh",
        ]
      ) {
        const { stdout } = await run(line);
        assert(!stdout.includes("2 2 3"), line);
      }
    });

    await t.step("CVE-2025-53355: an argument or a path of a caller is no command for a shell", async () => {
      const { body } = await sbx.api("POST", "/vms/dev/exec", {
        command: ["echo", "$(touch /tmp/ran)", "; touch /tmp/ran", "`touch /tmp/ran`", "| touch /tmp/ran"],
        cwd: "/tmp/$(touch ran)",
      });
      const plain = await sbx.api("POST", "/vms/dev/exec", {
        command: ["echo", "$(touch /tmp/ran)", "; touch /tmp/ran", "`touch /tmp/ran`"],
      });
      assert(body.exit_code !== 0, JSON.stringify(body));
      assertEquals(plain.body.stdout, "$(touch /tmp/ran) ; touch /tmp/ran `touch /tmp/ran`\n");
      for (const path of ["/root/$(touch /tmp/ran)", "/root/x; touch /tmp/ran", "-exec touch /tmp/ran"]) {
        await sbx.fetch(`/vms/dev/files/list?path=${encodeURIComponent(path)}`).then((it) =>
          it.body?.cancel()
        );
        await sbx.fetch(`/vms/dev/files/content?path=${encodeURIComponent(path)}`).then((it) =>
          it.body?.cancel()
        );
      }
      assertEquals((await run("ls /tmp/ran")).stdout, "");
    });

    await t.step("CVE-2025-64755: a program that is only known as a reader writes no held file", async () => {
      await sbx.fetch("/vms/dev/files/content?path=fixed/a", { method: "POST", body: "fixed\n" }).then((
        answer,
      ) => answer.body?.cancel());
      await Deno.writeTextFile(profile, (await Deno.readTextFile(profile)) + FILE_RULES);
      await sbx.ok("policy", "reload", "dev");
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

Deno.test("CVE-2024-4467: a disk of a guest is bytes to QEMU, whatever format it claims", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(join(dir, "secret"), "secret of the host");
  const named = `json:{"driver":"raw","file":{"driver":"file","filename":"${dir}/secret"}}`;
  await sh(dir, "truncate -s 1M rootfs");
  // The header of a qcow2 file with a backing file, as a guest that writes to its disk would put one there.
  const bytes = new Uint8Array(1024 * 1024);
  const view = new DataView(bytes.buffer);
  bytes.set([0x51, 0x46, 0x49, 0xfb]);
  view.setUint32(4, 2);
  view.setBigUint64(8, 0x200n);
  view.setUint32(16, named.length);
  view.setUint32(20, 16);
  view.setBigUint64(24, BigInt(bytes.length));
  view.setUint32(36, 1);
  view.setBigUint64(40, 0x30000n);
  view.setBigUint64(48, 0x10000n);
  view.setUint32(56, 1);
  bytes.set(new TextEncoder().encode(named), 0x200);
  await Deno.writeFile(join(dir, "scratch"), bytes);
  const spec = {
    dir,
    arch: "x86_64",
    cpus: 1,
    ramMb: 64,
    accelerator: "tcg",
    rootfs: join(dir, "rootfs"),
    scratch: join(dir, "scratch"),
  };
  const args = machineArguments(
    spec as unknown as Parameters<typeof machineArguments>[0],
    join(dir, "memory"),
    {
      from: "memory",
      plugged: [],
    },
  );
  const qemu = limitChild(
    new Deno.Command("qemu-system-x86_64", { args, stdin: "null", stdout: "null", stderr: "piped" }).spawn(),
  );
  const said = new Response(qemu.stderr).text();
  const ended = qemu.status.then(async () => Promise.reject(new Error(await said)));
  ended.catch(() => {});
  let monitor: Deno.UnixConn | undefined;
  while (!monitor) {
    monitor = await Promise.race([
      ended,
      Deno.connect({ transport: "unix", path: join(dir, "qmp.sock") }).catch(() => undefined),
    ]);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const lines = monitor.readable.pipeThrough(new TextDecoderStream()).getReader();
  const writer = monitor.writable.getWriter();
  const command = (name: string) =>
    writer.write(new TextEncoder().encode(`${JSON.stringify({ execute: name })}\n`));
  await command("qmp_capabilities");
  await command("query-named-block-nodes");
  let text = "";
  while (!text.includes('"return": [')) text += (await lines.read()).value ?? "";
  while (!text.trimEnd().endsWith("]}")) text += (await lines.read()).value ?? "";
  qemu.kill("SIGKILL");
  await qemu.status;
  await Deno.remove(dir, { recursive: true });
  assert(text.includes(join(dir, "scratch")), text);
  assert(!text.includes("qcow2") && !text.includes("secret"), text);
});
