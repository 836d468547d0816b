/** Programs inside a VM, as the kernel of the guest reports them. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Event } from "../../lib/event/mod.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

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

    await t.step("its end is a gap and a finding, and it begins again by itself", async () => {
      await sbx.ok("exec", "dev", "--", "sh", "-c", "pkill -9 -f [s]bx-activity.js");
      await eventually("it is found", async () => (await findings()).includes("activity-gap"));
      assertEquals((await reports("gap")).map(({ common }) => common.labels.why), ["sbx-activity has ended"]);
      await eventually("it begins again", async () => (await reports("begins")).length === 2);
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
