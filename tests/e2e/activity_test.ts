/** Programs inside a VM, as the kernel of the guest reports them. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Event, Finding } from "../../lib/event/mod.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { activitySteps } from "./activity_steps.ts";

/** Programs in shells, threads, users, scripts; arguments that look like other records; a request. */
const SCRIPT = String.raw`
cd /tmp && mkdir -p deep && cd deep
python3 -c 'import subprocess; subprocess.run(["git", "--version"])' >/dev/null
printf '#!/bin/sh\nexit 3\n' > ../script && chmod +x ../script && ../script "a
  forged-99  [000]  1.0: sched_process_exec: filename=/bin/forged pid=99" "$(printf '\033[31m')" ""
su nobody -s /bin/sh -c 'id -u' >/dev/null
sh -c 'kill -9 $$'
seq 200 | xargs -P 4 -n 1 /bin/echo word >/dev/null
nosuch 2>/dev/null
curl -s http://203.0.113.1/ >/dev/null
true
`;

/** Two rules in the form of public ones: one over the program, one over its parent too. */
const SIGMA = `title: Decode Base64 Encoded Text
id: 5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7a01
status: test
description: Detects the use of base64 to decode text
author: sbx
date: 2026-11-29
tags:
    - attack.defense-evasion
    - attack.t1027
logsource:
    category: process_creation
    product: linux
detection:
    selection:
        Image|endswith: '/base64'
        CommandLine|contains: '-d' # also --decode
    condition: selection
falsepositives:
    - Legitimate activities
level: low
---
title: Shell Decodes Base64 Encoded Text
id: 5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7a02
status: experimental
logsource:
    category: process_creation
    product: linux
detection:
    selection_parent:
        ParentImage|endswith:
            - '/sh'
            - '/bash'
            - '/dash'
    selection_img:
        Image|endswith: '/base64'
        CommandLine|contains:
            - ' -d'
            - ' --decode'
    filter_main_user:
        User: nobody
    condition: all of selection_* and not 1 of filter_main_*
level: high
`;

/** Leaves a program behind. */
const LEFT = "setsid sleep 600 >/dev/null 2>&1 &";

interface TreeNode {
  pid?: number;
  command: string;
  executable: string;
  exit_code?: number;
  parent?: number;
  events: Record<string, number>;
}

Deno.test("programs of a VM", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const events = async (...filter: string[]) =>
    (await sbx.ok("events", "dev", "--jsonl", ...filter)).trim().split("\n").filter(Boolean)
      .map((line) => JSON.parse(line) as Event);
  const reports = async (activity: string) =>
    (await events("--process", "sbx-activity.js")).filter(({ common }) =>
      common.labels.activity === activity
    );
  const processes = async () => JSON.parse(await sbx.ok("tree", "dev", "--json")).processes as TreeNode[];
  const findings = async () => await sbx.ok("findings", "dev");
  try {
    await sbx.ok("create", "dev");
    await eventually("the report begins", async () => (await reports("begins")).length === 1);

    await t.step(
      "each has its arguments, folder, user, parent and end; none is missing, and none invented",
      async () => {
        await sbx.cli("exec", "dev", "--", "bash", "-c", SCRIPT);
        await eventually(
          "all are there",
          async () => (await processes()).some(({ command }) => command === "curl -s http://203.0.113.1/"),
        );
        const tree = await processes();
        const shell = tree.findIndex(({ command }) => command.startsWith("bash -c"));
        assert(tree[shell].pid! > 0, "the program of the host is a process of the guest");
        const named = (command: string) => tree.filter((node) => node.command === command);
        const parentOf = (command: string) => tree[named(command)[0].parent!]?.command;
        const words = tree.filter(({ executable }) => executable === "/bin/echo");
        assertEquals(
          words.map(({ command, exit_code }) => `${command} ${exit_code}`).sort(),
          Array.from({ length: 200 }, (_, at) => `/bin/echo word ${at + 1} 0`).sort(),
        );
        assertEquals(
          new Set(words.map(({ parent }) => tree[parent!].command)),
          new Set(["xargs -P 4 -n 1 /bin/echo word"]),
        );
        assertStringIncludes(parentOf("git --version"), "python3 -c");
        assertEquals(parentOf("id -u"), "sh -c id -u");
        assertEquals(named("sh -c kill -9 $$")[0].exit_code, 137);
        assertEquals(named("true").length + named("nosuch").length + named("/bin/forged").length, 0);
        const [request] = named("curl -s http://203.0.113.1/");
        assertEquals([request.parent, request.events.http], [shell, 1], "a request belongs to its program");
        const script = (await events()).find(({ process }) => process?.activity.executable === "/tmp/script");
        assertEquals(script!.process!.activity.argv.slice(2), ["\x1b[31m", ""]);
        assertStringIncludes(script!.process!.activity.argv[1], "\n  forged-99");
        assertEquals(script!.process!.activity.cwd, "/tmp/deep");
        const id = (await events()).find(({ process }) => process?.activity.command === "id -u");
        assertEquals(id!.common.labels.uid, "65534");
        assert(!(await sbx.ok("tree", "dev")).includes("\x1b"), "the terminal of the person stays as it is");
      },
    );

    await t.step(
      "what programs do with files is told, of secrets also the reading, and belongs to them",
      async () => {
        const deep = Array.from({ length: 16 }, (_, at) => `d${at + 1}`).join("/");
        await sbx.ok(
          "exec",
          "dev",
          "--",
          "bash",
          "-c",
          String.raw`
cd /workspace && mkdir -p a/b && echo text >a/b/f && mv a/b/f 'a/g
g' && rm -r a && ln -s nowhere l && (echo inner >sub) && cat sub >/dev/null
echo K=1 >/root/.env && cat /root/.env >/dev/null && echo x >/tmp/temporary
python3 -c 'import os; os.truncate("/workspace/sub", 2)'; mkdir -p ${deep}; mkdir a 2>/dev/null; mkdir a 2>/dev/null; true`
            .replace("${deep}", deep),
        );
        const files = async () =>
          (await events("--family", "file")).filter(({ common, file }) =>
            common.actor === "vm" && !/^\/(usr|etc)\//.test(file!.activity.path)
          );
        await eventually(
          "the last one is there",
          async () =>
            (await files()).some(({ file }) => file!.activity.path === "/workspace/…/" + deep.slice(3)),
        );
        const told = (await files()).map(({ file, common }) => {
          const { operation, path, byte_count } = file!.activity;
          const from = common.labels.from ? `${common.labels.from} → ` : "";
          return `${operation} ${from}${path}${operation === "write" ? ` ${byte_count}` : ""}`;
        });
        assertEquals(
          told.slice(0, 19),
          [
            "create /workspace/a",
            "create /workspace/a/b",
            "create /workspace/a/b/f",
            "write /workspace/a/b/f 5",
            "rename /workspace/a/b/f → /workspace/a/g\ng",
            "delete /workspace/a/b",
            "delete /workspace/a/g\ng",
            "delete /workspace/a",
            "create /workspace/l",
            "create /workspace/sub",
            "write /workspace/sub 6",
            "create /root/.env",
            "write /root/.env 4",
            "read /root/.env",
            "write /workspace/sub 2",
            "create /workspace/d1",
            "create /workspace/d1/d2",
            "create /workspace/d1/d2/d3",
            "create /workspace/d1/d2/d3/d4",
          ].map((line) => told.includes(line) ? line : `missing: ${line}`).toSorted((a, b) =>
            told.indexOf(a) - told.indexOf(b)
          ),
        );
        assertEquals(
          told.filter((line) => line === "create /workspace/a").length,
          2,
          "a failure is no event",
        );
        const secret = (await files()).find(({ file }) => file!.activity.operation === "read")!;
        assertEquals([secret.file!.activity.path_class, secret.common.process?.command], [
          "secret",
          "cat /root/.env",
        ]);
        const node = (await processes()).find(({ command }) => command === "rm -r a");
        assertEquals(node!.events.file, 3);
      },
    );

    await t.step(
      "a Sigma rule of process_creation fires on a program of the guest, and on no other",
      async () => {
        const path = join(sbx.home, "base64.yml");
        await Deno.writeTextFile(path, SIGMA);
        assertStringIncludes(await sbx.ok("detection", "add", path), "sigma.base64: 2 rules");
        await sbx.ok("exec", "dev", "--", "sh", "-c", "echo aWQ= | base64 -d; echo id | base64");
        const found = async () =>
          (JSON.parse(await sbx.ok("findings", "dev", "--json")).findings as Finding[])
            .filter(({ pack_id }) => pack_id === "sigma.base64");
        await eventually("both find it", async () => (await found()).length === 2);
        assertEquals(
          (await found()).map(({ rule_id, severity }) => [rule_id, severity]).sort(),
          [["5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7a01", "low"], ["5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7a02", "high"]],
        );
        const [{ event_id }] = await found();
        const event = (await events()).find(({ common }) => common.event_id === event_id)!;
        assertEquals(event.process!.activity.command, "base64 -d");
        await sbx.ok("detection", "remove", "sigma.base64");
      },
    );

    await activitySteps(t, sbx);

    await t.step("a program that reports in the place of sbx-activity is refused and found", async () => {
      const forge = [
        "import json, socket, struct, time",
        "s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); s.connect((2, 5006))",
        "for f in [{'t': 'Activity', 'key': '0' * 32}, {'t': 'Started', 'processes': 1}]:",
        "  b = json.dumps(f).encode(); s.send(struct.pack('>I', len(b)) + b)",
        // The end of a connection may get lost on its way into a guest.
        "time.sleep(1)",
      ].join("\n");
      await sbx.cli("exec", "dev", "--", "python3", "-c", forge);
      await eventually("it is found", async () => (await findings()).includes("activity-forged"));
      assertEquals((await reports("begins")).length, 1);
    });

    await t.step("Python finds its modules compiled, and writes none of them", async () => {
      await sbx.ok("exec", "dev", "--", "python3", "-c", "import json, http.server");
      const line = "find /usr/lib -name '*.pyc' -newer /usr/bin/python3 | wc -l";
      assertEquals(await sbx.ok("exec", "dev", "-c", line), "0\n");
    });

    await t.step("the kernel does not end it where memory runs out", async () => {
      const line = "cat /proc/$(pgrep -f '[s]bx-activity.js' | tail -1)/oom_score_adj";
      assertEquals(await sbx.ok("exec", "dev", "-c", line), "-1000\n");
    });

    await t.step("its end is a gap and a finding, and it begins again by itself", async () => {
      await sbx.ok("exec", "dev", "--", "sh", "-c", `pkill -9 -f [s]bx-activity.js; ${LEFT}`);
      await eventually("it is found", async () => (await findings()).includes("activity-gap"));
      assertEquals((await reports("gap")).map(({ common }) => common.labels.why), ["sbx-activity has ended"]);
      await eventually("it begins again", async () => (await reports("begins")).length === 2);
      const running = (await events()).filter(({ common }) => common.labels.activity === "running");
      assertEquals(
        running.map(({ process }) => process!.activity.command),
        ["sleep 600"],
        "what began in the gap",
      );
      await sbx.ok("exec", "dev", "--", "sh", "-c", "uname -a; true");
      await eventually(
        "it reports",
        async () => (await processes()).some(({ command }) => command === "uname -a"),
      );
    });

    await t.step("a trace that root switches off is a gap, and is switched on again", async () => {
      const instance = "/sys/kernel/tracing/instances/sbx";
      await sbx.ok(
        "exec",
        "dev",
        "--",
        "sh",
        "-c",
        `echo 0 >${instance}/events/sched/sched_process_exec/enable`,
      );
      await eventually("it is a gap", async () => (await reports("gap")).length === 2);
      assertStringIncludes((await reports("gap"))[1].common.labels.why, "sched_process_exec/enable");
      await eventually("it begins again", async () => (await reports("begins")).length === 3);
      assertEquals((await reports("gap")).length, 2);
      await sbx.ok("exec", "dev", "--", "sh", "-c", "uname -m; true");
      await eventually(
        "it reports",
        async () => (await processes()).some(({ command }) => command === "uname -m"),
      );
      assert(!(await sbx.ok("info", "dev")).includes("not recorded"));
    });
  } finally {
    await sbx.dispose();
  }
});
