/**
 * Programs that programs of a VM start, and files that they open, wait for the rules,
 * where some rule restricts them.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { eventually, Sbx } from "../helper/sbx.ts";

const RULES = `
[profiles.rules.no-git]
action = "block"
match = 'process.activity.executable == "git"'
reason = "no git"

[profiles.rules.ask-tac]
action = "ask"
match = 'common.actor == "vm" && process.activity.executable == "/usr/bin/tac"'

[profiles.rules.no-shuf]
action = "block"
match = 'process.activity.executable == "/usr/bin/shuf"'
`;
/** Rules on arguments, of two programs. */
const ARGUMENT_RULES = `
[profiles.rules.no-nine]
action = "block"
match = 'process.activity.executable == "/usr/bin/seq" && process.activity.argv.exists(word, word == "9")'

[profiles.rules.no-word]
action = "block"
match = 'process.activity.executable == "/usr/bin/printf" && process.activity.command.contains("forbidden")'
`;
/** Program of x86_64 that starts `seq 9` as 32-bit programs do. */
const COMPAT = `
import struct, os
base = 0x400000
code = b"\\xb8\\x0b\\0\\0\\0\\xbb%s\\xb9%s\\x31\\xd2\\xcd\\x80\\xb8\\x3c\\0\\0\\0\\xbf\\x07\\0\\0\\0\\x0f\\x05"
at = base + 120 + len(code) + 4
text = b"/usr/bin/seq\\0seq\\0" + b"9\\0\\0\\0"
argv = at + len(text)
code = code % (struct.pack("<I", at), struct.pack("<I", argv))
data = code + b"\\0" * (at - base - 120 - len(code)) + text + struct.pack("<III", at + 13, at + 17, 0)
head = b"\\x7fELF\\x02\\x01\\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 64, 0, 0)
head += struct.pack("<IIQQQQQQ", 1, 7, 0, base, base, 120 + len(data), 120 + len(data), 4096)
open("/tmp/compat", "wb").write(head + data)
os.chmod("/tmp/compat", 0o755)`;
/** Ways to have arguments that are not read. */
const ARGUMENTS: Record<string, string> = {
  "a 32-bit call": `python3 -c '${COMPAT}'; /tmp/compat`,
  "a long argument": 'env printf "%s" "$(printf %9000s)forbidden"',
  "many arguments": 'env printf "%s" $(seq 300) forbidden',
};
/** Rules that name what may run, and block the rest. */
const ALLOW_RULES = `
[profiles.rules.may-run]
action = "allow"
match = 'process.activity.executable in ["/usr/bin/true", "/usr/bin/python3", "/usr/bin/ldd"]'

[profiles.rules.the-rest]
action = "block"
priority = 50
match = 'common.actor == "vm" && has(process.activity)'
`;
/**
 * Makes another program at a path that ends like that of one that may run, and
 * a link into a folder two below.
 */
const OTHER =
  "mkdir -p /tmp/o/a/b /tmp/o/usr/bin && cp /usr/bin/seq /tmp/o/usr/bin/true && ln -s /tmp/o/a/b /tmp/in";
/** Starts a program, and writes another one's path into its memory while the kernel asks. */
const SWAP = `
import ctypes, os, threading
libc = ctypes.CDLL(None)
for attempt in range(20):
    child = os.fork()
    if child == 0:
        path = ctypes.create_string_buffer(b"/tmp/o/usr/bin/true", 64)
        def swap():
            while True:
                path.value = b"/usr/bin/true"
        argv = (ctypes.c_char_p * 3)(b"true", b"77", None)
        threading.Thread(target=swap, daemon=True).start()
        for each in range(200):
            path.value = b"/tmp/o/usr/bin/true"
            libc.execve(path, argv, None)
        os._exit(0)
    os.waitpid(child, 0)`;
/**
 * Has a script that may run fail, since it is closed before its interpreter opens it, and
 * repeats the call with the loader.
 */
const LOADER = `
import ctypes, os
libc = ctypes.CDLL(None)
argv = (ctypes.c_char_p * 4)(b"ld.so", b"/tmp/o/usr/bin/true", b"77", None)
empty = ctypes.create_string_buffer(b"", 8)
for path in ["/usr/bin/ldd", "/lib64/ld-linux-x86-64.so.2"] * 3:
    os.dup2(os.open(path, os.O_RDONLY), 9, inheritable=False)
    libc.syscall(322, 9, empty, argv, None, 0x1000)`;
/** Ways to run another program by the name of one that may run. */
const NAMES: Record<string, string> = {
  "a link in front of ..": "/tmp/in/../../usr/bin/true 77",
  "a path that changes in memory": `/usr/bin/python3 -c '${SWAP}'`,
  "the loader in a call that failed before": `/usr/bin/python3 -c '${LOADER}'`,
};
const FILE_RULES = `
[profiles.rules.no-env]
action = "block"
match = 'file.activity.name == ".env"'
reason = "secrets stay here"

[profiles.rules.no-change]
action = "block"
match = 'file.activity.operation == "write" && file.activity.path.startsWith("/workspace/fixed/")'
reason = "fixed"

[profiles.rules.ask-notes]
action = "ask"
match = 'file.activity.path == "/root/notes" && file.activity.operation == "read"'

[profiles.rules.no-keys]
action = "block"
match = 'file.activity.path in ["/workspace/deep/key", "/srv/key"]'
`;
/** Classes of files, without a rule and with one. */
const NAMED_TOLD = `
[activity.paths]
"/srv/keys" = "secret"
"/run/held" = "secret"
"/tmp/build" = "workspace"
`;
const NAMED = `${NAMED_TOLD}
[profiles.rules.no-named]
action = "block"
match = 'file.activity.operation == "read" && file.activity.path_class == "secret"'
reason = "no secrets"
`;
/** Mounts, and says so. */
const mounted = (how: string, path: string) => `mkdir -p ${path} && mount ${how} ${path} && echo mounted`;
const at = (how: string, path: string, file: string) => `${mounted(how, path)} && cat ${path}${file}`;
/** Held from the moment on in which the mount is noticed. */
const noticed = (how: string, path: string, use: string) =>
  `${mounted(how, path)}; for n in $(seq 40); do ${use} >/dev/null 2>&1 || break; sleep 0.5; done; ${use}`;
const AS_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups";
/** Ways to read or to write what may not be. */
const OPENS: Record<string, string> = {
  "its name": "cat /workspace/.env",
  "a link": "ln -sf /workspace/.env /tmp/link && cat /tmp/link",
  "another folder": "cd /workspace/deep && cat ../.env",
  "a mount": "mkdir -p /tmp/m && mount --bind /workspace /tmp/m && cat /tmp/m/.env",
  "a mount of its folder": at("--bind /workspace/deep", "/tmp/m1", "/key"),
  "a mount of the file": "touch /tmp/m2 && mount --bind /workspace/deep/key /tmp/m2 && cat /tmp/m2",
  "a second mount of the workspace": at("-t virtiofs workspace", "/tmp/m3", "/deep/key"),
  "a mount namespace": `unshare -m sh -c '${at("--bind /workspace/deep", "/tmp/m4", "/key")}'`,
  "a mount that was moved": `unshare -m sh -c '${at("--move /workspace", "/tmp/m5", "/deep/key")}'`,
  "a mount that is gone": `${
    mounted("--bind /workspace/deep", "/tmp/m6")
  } && cd /tmp/m6 && umount -l . && cat key`,
  "another root": `${mounted("--bind /", "/tmp/m7")} && chroot /tmp/m7 cat /srv/key`,
  "the disk below the root": "cat /proc/1/root/upper/data/srv/key /proc/1/root/disk/data/srv/key",
  "a second mount of the disk": noticed("-t ext4 /dev/vdc", "/tmp/m8", "cat /tmp/m8/data/srv/key"),
  "an overlay": noticed("-t overlay o -o lowerdir=/workspace/deep:/mnt", "/tmp/m9", "cat /tmp/m9/key"),
  "an overlay in a mount namespace": `unshare -m sh -c '${
    noticed("-t overlay o -o lowerdir=/workspace/deep:/mnt", "/tmp/m10", "cat /tmp/m10/key")
  }'`,
  "root of a user namespace": `mkdir -p -m 0777 /tmp/m11; ${AS_NOBODY} unshare -Urm sh -c '${
    at("--bind /workspace/deep", "/tmp/m11", "/key").replace("echo mounted", "true")
  }'`,
  "a copy": "cp /workspace/.env /tmp/copy && cat /tmp/copy",
  "reading and writing": `python3 -c 'import os; print(os.read(os.open("/workspace/.env", os.O_RDWR), 99))'`,
  "openat2": `python3 -c '
import ctypes, os
how = (ctypes.c_uint64 * 3)(0, 0, 0)
fd = ctypes.CDLL(None).syscall(437, -100, b"/workspace/.env", how, 24)
print(os.read(fd, 99))'`,
  "a program": `printf '#!/bin/cat\\n' >/tmp/x && chmod +x /workspace/.env && /bin/cat < /workspace/.env`,
  "a change of what is fixed": "echo secret >>/workspace/fixed/a && cat /workspace/fixed/a",
  "cutting what is fixed":
    `python3 -c 'import os; os.open("/workspace/fixed/a", os.O_TRUNC); print("secret")'`,
};
/** Runs a program that is blocked by its path alone. */
const shuf = (path: string) => `${path} -e "git version"`;
/** Ways to run git, each of which is its own program's business. */
const WAYS: Record<string, string> = {
  "its name": "git --version",
  "its path": "/usr/bin/git --version",
  "another program": "env git --version",
  "a shell in a shell": "sh -c 'sh -c \"git --version\"'",
  "Python": `python3 -c 'import subprocess; subprocess.run(["git", "--version"])'`,
  "a link": "ln -sf /usr/bin/git /tmp/g && /tmp/g --version",
  "a script": "printf '#!/usr/bin/git --version\\n' >/tmp/s && chmod +x /tmp/s && /tmp/s",
  "an open file":
    `python3 -c 'import os; os.execve(os.open("/usr/bin/git", os.O_RDONLY), ["x", "--version"], {})'`,
  "memory": `python3 -c '
import os
fd = os.memfd_create("x", 0)
os.write(fd, open("/usr/bin/git", "rb").read())
os.execve(fd, ["git", "--version"], {})'`,
  "a mount of its folder": `${mounted("--bind /usr/bin", "/tmp/e1")} && ${shuf("/tmp/e1/shuf")}`,
  "a mount namespace": `unshare -m sh -c '${mounted("--bind /usr/bin", "/tmp/e2")} && ${
    shuf("/tmp/e2/shuf")
  }'`,
  "the image below the root": shuf("/proc/1/root/lower/usr/bin/shuf"),
  "a second mount of the image": noticed("-t erofs -o ro /dev/vda", "/tmp/e3", shuf("/tmp/e3/usr/bin/shuf")),
  // Held from the moment on in which it is noticed.
  "a mount of its own": "mkdir -p /tmp/m && mount -t tmpfs m /tmp/m && cp /usr/bin/git /tmp/m/; " +
    "for n in $(seq 40); do /tmp/m/git --version >/dev/null 2>&1 || break; sleep 0.5; done; /tmp/m/git --version",
};

Deno.test("programs of a VM wait for the rules", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const run = (line: string) => sbx.cli("exec", "dev", "-c", line);
  const asks = async () => JSON.parse(await sbx.ok("asks", "--json")).asks;
  let profile = "", text = "", workspace = "";
  /** Has these rules decide. */
  const use = async (rules: string) => {
    await Deno.writeTextFile(profile, text + rules);
    await sbx.ok("policy", "reload", "dev");
  };
  try {
    await sbx.ok("profile", "copy", "code", "mine");
    profile = `${sbx.home}/profiles/mine/profile.toml`;
    text = await Deno.readTextFile(profile);
    await Deno.writeTextFile(profile, text + RULES);
    // The report runs in the template already, before the VM has the root file
    // system whose programs it holds.
    await sbx.ok("template", "make");
    await sbx.ok("create", "dev", "--profile", "mine");
    assertStringIncludes(await sbx.ok("info", "dev"), "from a template");
    workspace = JSON.parse(await sbx.ok("info", "dev", "--json")).workspace;

    for (const [way, line] of Object.entries(WAYS)) {
      await t.step(`a program that is blocked does not run by way of ${way}`, async () => {
        const { stdout, code } = await run(line);
        assertEquals(stdout.includes("git version"), false, stdout);
        if (line.includes("echo mounted")) assertStringIncludes(stdout, "mounted");
        assert(code !== 0);
      });
    }

    await t.step("a block holds inside a Makefile, whose other lines run", async () => {
      await Deno.copyFile("/usr/bin/make", `${workspace}/make`);
      await Deno.writeTextFile(`${workspace}/Makefile`, "all:\n\t@echo before\n\t@git --version\n");
      const { stdout, stderr, code } = await run("./make all");
      assertEquals([stdout, code], ["before\n", 2]);
      assertStringIncludes(stderr, "no git");
    });

    await t.step("its user is told why, and so is who asks for the event", async () => {
      const { stderr } = await run("git --version");
      assertStringIncludes(stderr, "no git");
      assertMatch(stderr, /Operation not permitted/);
      const [, event] = /sbx why ([0-9a-f]{12})/.exec(stderr)!;
      const why = await sbx.ok("why", event);
      assertStringIncludes(why, "no-git");
      assertStringIncludes(why, "git --version");
    });

    await t.step("other programs run, with all their arguments", async () => {
      const { stdout, code } = await run(
        `seq 20 | xargs -n 1 sh -c 'echo "$0 x  y"' | md5sum; printf '#!/bin/sh\\necho "$1|$2"' >/tmp/e; chmod +x /tmp/e; /tmp/e "" 'a  b'`,
      );
      assertEquals([stdout.split("\n")[1], code], ["|a  b", 0]);
    });

    await t.step("what the host runs is decided once, in a terminal too", async () => {
      assertEquals((await sbx.cli("exec", "dev", "--", "tac", "/dev/null")).code, 0);
      const blocked = await sbx.cli("exec", "dev", "--", "git", "--version");
      assertEquals(blocked.code, 126);
      assertStringIncludes(blocked.stderr, "no git");
    });

    await t.step("one that is asked about waits, and runs once it is allowed", async () => {
      const running = run("echo a >/tmp/lines; echo b >>/tmp/lines; tac /tmp/lines");
      await eventually("it asks", async () => (await asks()).length === 1);
      const [{ ask_id }] = await asks();
      // Others do not wait for it.
      assertEquals((await run("cat /tmp/lines")).stdout, "a\nb\n");
      await sbx.ok("allow", ask_id);
      const { stdout, code } = await running;
      assertEquals([stdout, code], ["b\na\n", 0]);
      // Each program is asked about once: its loader is a part of it.
      assertEquals((await asks()).length, 0);
    });

    await t.step("one that is denied gets the kernel's refusal", async () => {
      const running = run("tac /tmp/lines; echo $?");
      await eventually("it asks", async () => (await asks()).length === 1);
      await sbx.ok("deny", (await asks())[0].ask_id, "--for", "once");
      const { stdout, stderr } = await running;
      assertEquals(stdout, "126\n");
      assertStringIncludes(stderr, "your user denied it");
    });

    await t.step(
      "what waits when the report is killed does not run, nor what starts before it holds again",
      async () => {
        const waiting = run("tac /tmp/lines; echo $?");
        await eventually("it asks", async () => (await asks()).length === 1);
        const { stdout } = await run(
          "pkill -9 -f [s]bx-activity.js; for i in 1 2 3; do git --version; tac /tmp/lines; /bin/echo ran; done",
        );
        assertEquals(stdout, "");
        assertEquals((await waiting).stdout, "126\n");
        await sbx.ok("deny", (await asks())[0].ask_id, "--for", "once");
      },
    );

    await t.step("a report that was killed holds again before the host runs anything", async () => {
      await eventually("it was seen", async () => (await sbx.ok("findings", "dev")).includes("activity-gap"));
      const { stdout, stderr } = await run("git --version");
      assertEquals(stdout, "");
      assertStringIncludes(stderr, "no git");
    });

    await run(OTHER);
    await use(ALLOW_RULES);
    await t.step("a program that may run does, by its path and by a link", async () => {
      const { code, stderr } = await run(
        "/usr/bin/true && /usr/bin/python3 -c 'print()' && cd / && usr/bin/true",
      );
      assertEquals([code, stderr], [0, ""]);
    });
    for (const [way, line] of Object.entries(NAMES)) {
      await t.step(`another program does not run in its place by ${way}`, async () => {
        assertEquals((await run(line)).stdout, "");
      });
    }
    await use(RULES);
    await t.step("the guest has no virtualization of its own", async () => {
      const { stdout } = await run("grep -cwE 'svm|vmx' /proc/cpuinfo; ls /dev/kvm");
      assertEquals(stdout, "0\n");
    });

    await use(ARGUMENT_RULES);
    for (const [way, line] of Object.entries(ARGUMENTS)) {
      await t.step(`a rule on arguments holds for ${way}`, async () => {
        const { stdout, code } = await run(line);
        assertEquals([/forbidden|9/.test(stdout), code !== 0], [false, true], stdout);
      });
    }

    await t.step(
      "programs whose arguments are read run, and so do long ones that no rule means",
      async () => {
        const { stdout } = await run("seq 3 | tail -n 1; env printf %s word; /bin/echo $(seq 300) | wc -w");
        assertEquals(stdout, "3\nword300\n");
      },
    );

    await Deno.mkdir(`${workspace}/deep`);
    await Deno.writeTextFile(`${workspace}/deep/key`, "secret");
    await run("echo secret >/srv/key");
    await Deno.mkdir(`${workspace}/fixed`);
    await Deno.writeTextFile(`${workspace}/.env`, "secret");
    await Deno.writeTextFile(`${workspace}/fixed/a`, "as it is");
    await use(FILE_RULES);

    for (const [way, line] of Object.entries(OPENS)) {
      await t.step(`a file that is blocked is not opened by way of ${way}`, async () => {
        const { stdout, code } = await run(line);
        assertEquals(stdout.includes("secret"), false, stdout);
        if (line.includes("echo mounted")) assertStringIncludes(stdout, "mounted");
        assert(code !== 0);
      });
    }

    await t.step("its reader is told why, and so is who asks for the event", async () => {
      const { stderr } = await run("cat /workspace/.env");
      assertStringIncludes(stderr, "secrets stay here");
      assertMatch(stderr, /cat: .*Operation not permitted/);
      const [, event] = /sbx why ([0-9a-f]{12})/.exec(stderr)!;
      const why = await sbx.ok("why", event);
      assertStringIncludes(why, "no-env");
      assertStringIncludes(why, "cat /workspace/.env");
    });

    await t.step("other files are read, written and executed", async () => {
      const { stdout, code } = await run(
        "cat /workspace/fixed/a; echo new >/workspace/a; cat /workspace/a; git --version; python3 -c 'import json; print(1)'",
      );
      assertEquals([stdout.replace(/git version.*/, "git"), code], ["as it is" + "new\ngit\n1\n", 0]);
    });

    await t.step("other files are read by any mount, in any namespace and below any root", async () => {
      const file = "fixed/a";
      const { stdout } = await run(
        [
          `cat /tmp/m3/${file}; umount /tmp/m3; mount --bind /workspace/fixed /tmp/m3 && cat /tmp/m3/a`,
          `unshare -m sh -c 'mount --move /workspace /tmp/m3 && cat /tmp/m3/${file}'`,
          `mount --bind / /tmp/m7; mount --bind /workspace /tmp/m7/workspace; chroot /tmp/m7 cat /workspace/${file}`,
          `unshare -m chroot /tmp/m7 cat /workspace/${file}; echo on >/srv/disk; cat /tmp/m8/data/srv/disk`,
        ].join("\n"),
      );
      assertEquals(stdout, `${"as it is".repeat(5)}on\n`);
    });

    await t.step("one that is asked about waits, and is read once it is allowed", async () => {
      const running = run("echo a >/root/notes; cat /root/notes");
      await eventually("it asks", async () => (await asks()).length === 1);
      assertEquals((await run("cat /workspace/fixed/a")).stdout, "as it is");
      await sbx.ok("allow", (await asks())[0].ask_id);
      assertEquals((await running).stdout, "a\n");
      assertEquals((await asks()).length, 0);
    });

    await t.step("many at once are all answered", async () => {
      const { stdout } = await run(
        "mkdir many; seq 100 | xargs -P 8 -I % sh -c 'echo % >many/%; cat many/% /workspace/.env 2>/dev/null' | wc -l",
      );
      assertEquals(stdout, "100\n");
    });

    await t.step(
      "files that a profile calls secret are held and told, also those that are temporary",
      async () => {
        await use(NAMED);
        await run(
          `mkdir -p /srv/keys/deep /tmp/build; echo secret >/srv/keys/deep/down; echo x >/tmp/build/x; echo y >/run/held
          touch /workspace/one /workspace/two; python3 -c '
import ctypes
ctypes.CDLL(None).renameat2(-100, b"/workspace/one", -100, b"/workspace/two", 2)'`,
        );
        const { stdout, stderr } = await run("cat /srv/keys/deep/down; cat /run/held; cat /tmp/build/x");
        assertEquals(stdout, "x\n");
        assertStringIncludes(stderr, "no secrets");
        await use(NAMED_TOLD);
        assertEquals((await run("cat /srv/keys/deep/down /run/held")).stdout, "secret\ny\n");
        const told = async () =>
          (await sbx.ok("events", "dev", "--jsonl", "--family", "file")).trim().split("\n")
            .map((line) => JSON.parse(line).file.activity)
            .map(({ operation, path, path_class }) => `${operation} ${path} ${path_class}`);
        await eventually("it is told", async () => (await told()).includes("read /run/held secret"));
        const lines = await told();
        for (
          const line of [
            "create /tmp/build/x workspace",
            "read /srv/keys/deep/down secret",
            "rename /workspace/one workspace",
            "rename /workspace/two workspace",
          ]
        ) {
          assert(lines.includes(line), `${line} of ${lines.join("\n")}`);
        }
      },
    );

    await t.step("without such a rule nothing waits", async () => {
      await use("");
      assertEquals((await run("cat /workspace/.env")).stdout, "secret");
      await eventually("git runs", async () => (await run("git --version")).code === 0);
      assertStringIncludes((await run(WAYS.memory)).stdout, "git version");
    });
  } finally {
    await sbx.dispose();
  }
});
