/** Jobs of one VM: they outlive terminal, service and gateway, keep their output, and end with the VM. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Job, JobLogs } from "../../lib/client/api/mod.ts";
import { JOB_OUTPUT_BYTES } from "../../lib/session/job/mod.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { attachTerminal } from "./terminal.ts";
import { SERVICES, serviceSteps } from "./service_steps.ts";
import { traceSteps } from "./trace_steps.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";

const DENY_CURL = `
[profiles.rules.no-curl]
action = "block"
match = 'process.activity.executable == "curl"'
reason = "no downloads"
`;

Deno.test("jobs of a VM", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const job = async (id: string): Promise<Job> => {
    const { jobs } = JSON.parse(await sbx.ok("jobs", "--json"));
    return jobs.find((job: Job) => job.id === id)!;
  };
  const ended = (id: string) =>
    eventually(`job ${id} has ended`, async () => (await job(id)).state === "Ended");
  const start = async (...args: string[]) => (await sbx.ok("exec", "--detach", ...args)).trim();
  try {
    await sbx.ok("profile", "copy", "code", "mine");
    await Deno.writeTextFile(`${sbx.home}/profiles/mine/profile.toml`, DENY_CURL + SERVICES, {
      append: true,
    });
    await sbx.ok("create", "dev", "--profile", "mine");

    await t.step(
      "a job runs in the background, and ends with exit code, duration and all output",
      async () => {
        const id = await start("dev", "--", "sh", "-c", "echo out; echo err >&2; sleep 1; pwd; exit 7");
        assertMatch(id, /^[0-9a-f]{8}$/);
        assertEquals((await job(id)).state, "Running");
        assertStringIncludes(await sbx.ok("jobs", "dev"), id);
        const attachable = () => sbx.ok("completions", "words", "--", "jobs", "attach", "");
        assertStringIncludes(await attachable(), `${id}\tRunning\n`);
        const followed = await sbx.cli("jobs", "logs", "--follow", id);
        assertEquals(followed, { code: 7, stdout: "out\n/workspace\n", stderr: "err\n" });
        const { state, exit_code, duration_ms, event_id } = await job(id);
        assertEquals([state, exit_code], ["Ended", 7]);
        assert(duration_ms! >= 1000);
        assert(!(await attachable()).includes(id));
        assertEquals(
          await sbx.ok("completions", "words", "--", "jobs", "logs", id.slice(0, 3)),
          `${id}\tEnded\n`,
        );
        assertEquals((await sbx.cli("jobs", "logs", id, "--tail", "1")).stdout, "/workspace\n");
        assertStringIncludes(await sbx.ok("why", event_id!), "allow");
        const { events }: { events: DecidedEvent[] } = JSON.parse(await sbx.ok("events", "dev", "--json"));
        const exits = events.filter(({ common }) =>
          common.actor === "host" && common.labels?.event_id === event_id
        );
        assertEquals(exits.map(({ process }) => process?.activity.exit_code), [7]);
        assertStringIncludes((await sbx.cli("jobs", "attach", id)).stderr, `sbx jobs logs ${id}`);
        assertEquals((await sbx.cli("jobs", "stop", id)).code, 1);
      },
    );

    await t.step("policy decides as for an exec", async () => {
      const { code, stdout, stderr } = await sbx.cli("exec", "--detach", "dev", "--", "curl", "x");
      assertEquals([code, stdout], [126, ""]);
      assertStringIncludes(stderr, "no downloads");
      const [, event] = /sbx why ([0-9a-f]{12})/.exec(stderr)!;
      assertStringIncludes(await sbx.ok("why", event), "no-curl");
      assertEquals((await sbx.cli("exec", "--detach", "--tty", "dev", "--", "curl", "x")).code, 126);
    });

    await t.step("a job outlives service and gateway, which are killed, with all of its output", async () => {
      const id = await start("dev", "--", "sh", "-c", "for i in $(seq 40); do echo $i; sleep 0.1; done");
      for (const role of ["service", "gateway"] as const) Deno.kill(sbx.pid(role), "SIGKILL");
      await ended(id);
      const lines = Array.from({ length: 40 }, (_, i) => `${i + 1}\n`).join("");
      assertEquals((await sbx.cli("jobs", "logs", id)).stdout, lines);
      assertEquals((await job(id)).exit_code, 0);
    });

    await t.step("of 64 MiB of output the end is kept, and the rest is said to be missing", async () => {
      const id = await start("dev", "--", "sh", "-c", "head -c 64M /dev/zero | tr '\\0' x; echo; echo end");
      await ended(id);
      const { stdout, stderr } = await sbx.cli("jobs", "logs", id);
      assert(stdout.endsWith("x\nend\n"));
      assert(stdout.length <= JOB_OUTPUT_BYTES && stdout.length > JOB_OUTPUT_BYTES / 2, `${stdout.length}`);
      assertEquals(stderr, `sbx: ${64 * 1024 * 1024 + 5 - stdout.length} bytes of output were not kept\n`);
    });

    await t.step("stop ends a job that ignores SIGTERM, with its children", async () => {
      const id = await start("dev", "--", "sh", "-c", "trap '' TERM; sleep 277 & while :; do sleep 1; done");
      assertStringIncludes(await sbx.ok("jobs", "stop", id), `stopped ${id}`);
      const { exit_code, reason } = await job(id);
      assertEquals([exit_code, reason], [137, "stopped by sbx jobs stop"]);
      assertEquals((await sbx.cli("exec", "dev", "--", "pgrep", "-f", "sleep 277")).code, 1);
      const late = await start("--timeout", "1", "dev", "--", "sleep", "60");
      await ended(late);
      assertEquals((await job(late)).exit_code, 124);
    });

    await t.step("a job ends with its program, also on a terminal, while a child goes on", async () => {
      for (const options of [[], ["--tty"]]) {
        const line = "setsid sleep 283 & echo started; until pgrep -f '^sleep 283'; do :; done; exit 7";
        const id = await start(...options, "dev", "--", "sh", "-c", line);
        await ended(id);
        assertEquals((await job(id)).exit_code, 7);
        assertEquals((await sbx.cli("exec", "dev", "--", "pkill", "-c", "-f", "^sleep 283")).stdout, "1\n");
      }
    });

    await t.step("an agent polls for new output", async () => {
      const id = await start(
        "dev",
        "--",
        "sh",
        "-c",
        "echo one; until [ -e go ]; do sleep 0.2; done; echo two",
      );
      const read = async (from: number) =>
        (await sbx.api("GET", `/vms/dev/jobs/${id}/logs?from=${from}`)).body as JobLogs;
      await eventually("its first line", async () => (await read(0)).stdout === "one\n");
      const { next } = await read(0);
      assertEquals((await read(next)).stdout, "");
      await sbx.ok("exec", "dev", "--", "touch", "go");
      await ended(id);
      assertEquals((await read(next)).stdout, "two\n");
      for (const path of ["x", "../../vm", "00000000"]) {
        assertEquals((await sbx.api("GET", `/vms/dev/jobs/${path}/logs`)).status, 404, path);
      }
      assertEquals(
        (await sbx.api("POST", "/vms/dev/jobs", { command: "true", tty: true, timeout_secs: 1 })).status,
        400,
      );
    });

    await t.step(
      "a terminal program: two attach, the size follows, it survives its viewers, and ends with its code",
      async () => {
        // A read at its time limit returns a part of the line.
        const script =
          "until stty size; read -t 0.3 -r part; ended=$?; line=$line$part; [ $ended = 0 ]; do :; done; echo got $line; exit 3";
        const id = await start("--tty", "dev", "--", "bash", "-c", script);
        const [first, second] = [
          await attachTerminal(sbx, "dev", { job: id }),
          await attachTerminal(sbx, "dev", { job: id }),
        ];
        // Each sets the size that it begins with.
        await eventually(
          "both are attached",
          () => [first, second].every((each) => each.text().includes("24 80")),
        );
        first.socket.send(JSON.stringify({ cols: 111, rows: 33 }));
        await eventually(
          "both see the size",
          () => [first, second].every((each) => each.text().includes("33 111")),
        );
        first.socket.close();
        second.socket.close();
        assertEquals((await job(id)).state, "Running");
        const third = await attachTerminal(sbx, "dev", { job: id });
        await eventually("the screen is replayed", () => third.text().includes("33 111"));
        third.type("hello\n");
        await eventually("it closes with its program", () => third.socket.readyState === WebSocket.CLOSED);
        assertStringIncludes(third.text(), "got hello");
        await ended(id);
        assertEquals((await job(id)).exit_code, 3);
        assertStringIncludes((await sbx.cli("jobs", "logs", id)).stdout, "got hello");
        const deaf = "trap '' HUP TERM; echo deaf; while :; do sleep 1; done";
        const stubborn = await start("--tty", "dev", "--", "sh", "-c", deaf);
        await eventually(
          "it ignores the signals",
          async () => (await sbx.cli("jobs", "logs", stubborn)).stdout.includes("deaf"),
        );
        await sbx.ok("jobs", "stop", stubborn);
        assertEquals((await job(stubborn)).exit_code, 137);
      },
    );

    await serviceSteps(t, sbx);
    await traceSteps(t, sbx, "mine");

    await t.step("jobs end with the VM, and are listed while it is stopped", async () => {
      const id = await start("dev", "--", "sh", "-c", "echo before; sleep 600");
      await eventually("its output", async () => (await sbx.cli("jobs", "logs", id)).stdout === "before\n");
      assertStringIncludes(await sbx.ok("info", "dev"), "1: sbx jobs dev");
      const { stderr } = await sbx.cli("stop", "dev");
      assertStringIncludes(stderr, "1 job ended with it");
      // Its program may have ended before the guest did.
      const { state, exit_code } = await job(id);
      assertEquals([state, [143, undefined].includes(exit_code)], ["Ended", true]);
      assertEquals((await sbx.cli("jobs", "logs", id)).stdout, "before\n");
      await sbx.ok("start", "dev");
      assertEquals((await job(id)).state, "Ended");
      const place = `${sbx.home}/sessions/${JSON.parse(await sbx.ok("info", "dev", "--json")).id}/jobs`;
      const files = Array.from(Deno.readDirSync(`${place}/${id}`), ({ name }) => `${place}/${id}/${name}`);
      assertEquals(files.map((file) => Deno.statSync(file).mode! & 0o777), files.map(() => 0o600));
      await start("dev", "--", "sleep", "600");
      assertStringIncludes((await sbx.cli("stop", "--all")).stderr, "1 job ended with the VMs");
    });
  } finally {
    await sbx.dispose();
  }
});
