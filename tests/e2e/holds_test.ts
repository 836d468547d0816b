/** Programs that programs of a VM start wait for the rules, where some rule restricts them. */
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
`;
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
  "a mount of its own":
    "mkdir -p /tmp/m && mount -t tmpfs m /tmp/m && sleep 2 && cp /usr/bin/git /tmp/m/ && /tmp/m/git --version",
};

Deno.test("programs of a VM wait for the rules", async (t) => {
  const sbx = await Sbx.make();
  const run = (line: string) => sbx.cli("exec", "dev", "-c", line);
  const asks = async () => JSON.parse(await sbx.ok("asks", "--json")).asks;
  let profile = "";
  try {
    await sbx.ok("profile", "copy", "code", "mine");
    profile = `${sbx.home}/profiles/mine/profile.toml`;
    await Deno.writeTextFile(profile, RULES, { append: true });
    // The report runs in the template already, before the VM has the root file system whose programs it holds.
    await sbx.ok("template", "make");
    await sbx.ok("create", "dev", "--profile", "mine");
    assertStringIncludes(await sbx.ok("info", "dev"), "from a template");

    for (const [way, line] of Object.entries(WAYS)) {
      await t.step(`a program that is blocked does not run by way of ${way}`, async () => {
        const { stdout, code } = await run(line);
        assertEquals(stdout.includes("git version"), false, stdout);
        assert(code !== 0);
      });
    }

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
      await sbx.ok("deny", (await asks())[0].ask_id);
      const { stdout, stderr } = await running;
      assertEquals(stdout, "126\n");
      assertStringIncludes(stderr, "your user denied it");
    });

    await t.step("a report that was killed holds again before the host runs anything", async () => {
      await run("pkill -9 -f [s]bx-activity.js");
      await eventually("it was seen", async () => (await sbx.ok("findings", "dev")).includes("activity-gap"));
      const { stdout, stderr } = await run("git --version");
      assertEquals(stdout, "");
      assertStringIncludes(stderr, "no git");
    });

    await t.step("without such a rule nothing waits", async () => {
      const text = await Deno.readTextFile(profile);
      await Deno.writeTextFile(profile, text.replace(RULES, ""));
      await sbx.ok("policy", "reload", "dev");
      await eventually("git runs", async () => (await run("git --version")).code === 0);
      assertStringIncludes((await run(WAYS.memory)).stdout, "git version");
    });
  } finally {
    await sbx.dispose();
  }
});
