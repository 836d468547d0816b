/** A coding agent of one's own: a program with a model of this host, on a folder of the host. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import type { Parsed } from "../helper/json.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const agent = (port: number) => `
[host]
services = ["llm:${port}", "other:${port}"]

[agent]
command = ["sh", "-c", "echo ready; read -r task; echo did $task"]
instructions = "/root/ROBOT.md"
headless = ["sh", "-c", "touch /root/.talk-1; echo begun $0; until [ -e go ]; do sleep 0.2; done; echo $0 >result; git add result; git commit -qm result; exit 7", "{prompt}"]

[agent.continue]
command = ["sh", "-c", "echo welcome back; read -r task; echo did $task"]
headless = ["sh", "-c", "echo went on with $0; echo $0 >>result; echo new >other", "{prompt}"]
conversations = "/root/.talk-*"

[agent.env]
ROBOT = "yes"

[agent.files]
"/root/.robot" = "{model} at {model_url}"
`;

/** An agent whose work says in which VM it was done. */
const RACER = `
[agent]
command = ["sh", "-c", "mkdir -p /root/.racer/talks; echo $$ >/root/.racer/talks/1; echo ready; read -r task; echo did $task"]
headless = ["sh", "-c", "echo $0 $(hostname) >result; git add result; git commit -qm result", "{prompt}"]

[agent.continue]
command = ["sh", "-c", "echo back"]
headless = ["sh", "-c", "echo on with $0", "{prompt}"]
conversations = "/root/.racer/talks/*"

[agent.setup]
folders = [".racer"]
texts = [".racer/RULES.md", ".racer/skills"]
never = { ".racer/login" = "login" }

[agent.setup.settings.".racer/settings.json"]
format = "json"
programs = ["hooks.*"]

[agent.files]
"/root/.racer/settings.json" = '{"telemetry": false, "trusted": ["{place}"]}'
`;

async function git(dir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runChild("git", { args: ["-C", dir, ...args] });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("an agent of one's own", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const folder = await Deno.makeTempDir();
  const repository = join(folder, "project");
  let vm = "";
  const models = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => Response.json({ data: [{ id: "m1:latest" }] }),
  );
  try {
    await Deno.mkdir(repository);
    await git(repository, "init", "-q", "-b", "main");
    await Deno.writeTextFile(join(repository, "file"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    await git(repository, "add", ".");
    await git(repository, "-c", "user.name=P", "-c", "user.email=p@example.com", "commit", "-qm", "first");
    await sbx.ok("profile", "copy", "code", "robot");
    await Deno.writeTextFile(join(sbx.home, "profiles/robot/profile.toml"), agent(models.addr.port), {
      append: true,
    });

    await t.step(
      "it is listed; one that is not there, and one without a terminal or a task, are refused",
      async () => {
        assertMatch(await sbx.ok("agent", "list"), /^robot /m);
        const unknown = await sbx.cli("agent", "nobody", repository, "-p", "x");
        assertEquals(unknown.code, 125);
        assertStringIncludes(unknown.stderr, "robot");
        const silent = await sbx.cli("agent", "robot", repository);
        assertStringIncludes(silent.stderr, 'sbx agent robot -p "…"');
        const nowhere = await sbx.cli("agent", "robot", join(folder, "nowhere"), "-p", "x", "-m", "llm/m1");
        assertStringIncludes(nowhere.stderr, "cannot be read");
        await git(folder, "init", "-q", "without-commit");
        const empty = await sbx.cli(
          "agent",
          "robot",
          join(folder, "without-commit"),
          "-p",
          "x",
          "-m",
          "llm/m1",
        );
        assertStringIncludes(empty.stderr, "has no commit");
        const modelless = await sbx.cli("agent", "robot", repository, "-p", "x");
        assertStringIncludes(modelless.stderr, "sbx agent robot --model llm/MODEL");
        const wrong = await sbx.cli("agent", "robot", repository, "-p", "x", "--model", "llm/m2");
        assertStringIncludes(wrong.stderr, "it has m1:latest");
        const first = await sbx.cli("agent", "robot", repository, "-p", "x", "-m", "llm/m1", "--continue");
        assertStringIncludes(first.stderr, `no agent has worked on ${repository} yet`);
        assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, []);
      },
    );

    await t.step("detached it works as a job, which attach finds among others", async () => {
      const started = JSON.parse(
        await sbx.ok("agent", "robot", repository, "-p", "the task", "-m", "llm/m1", "--detach", "--json"),
      );
      vm = started.vm;
      assertEquals(vm, "robot-project");
      const other = (await sbx.ok("exec", "--detach", vm, "--", "sleep", "600")).trim();
      const attached = sbx.follow("agent", "attach", vm);
      await attached.printed("begun the task\n");
      await sbx.ok("exec", vm, "-c", "touch /root/project/go");
      assertEquals(await attached.ended(), { code: 7, stdout: "begun the task\n" });
      const again = await sbx.cli("agent", "attach", vm);
      assertEquals(again.code, 125);
      assertStringIncludes(again.stderr, `no agent runs in "${vm}"`);
      await sbx.ok("jobs", "stop", other);
    });

    await t.step(
      "it goes on in the same VM, with its conversation, and the list shows its folder",
      async () => {
        const { folder, agent, active_at } = JSON.parse(await sbx.ok("list", "--json")).vms[0];
        assertEquals([folder.dir, folder.place, agent], [repository, "/root/project", "robot"]);
        assert(Date.parse(active_at) > Date.now() - 3_600_000);
        await sbx.ok("stop", vm);
        const on = await sbx.cli(
          "agent",
          "robot",
          repository,
          "-p",
          "this",
          "-m",
          "llm/m1",
          "--continue",
          "--json",
        );
        assertStringIncludes(on.stdout, "went on with this\n");
        assertEquals(on.code, 0, on.stderr);
        assertEquals(JSON.parse(on.stdout.slice(on.stdout.lastIndexOf('{\n  "vm"'))).vm, vm);
        const { untaken } = JSON.parse(await sbx.ok("list", "--json")).vms[0].folder;
        assertEquals([untaken.commits, untaken.files], [1, 3]);
        assertMatch(await sbx.ok("list"), /NOT PULLED[^]*1 commit and 3 files/);
      },
    );

    await t.step("it had its files and variables, and its work comes back as a branch", async () => {
      assertStringIncludes(await sbx.ok("exec", vm, "--", "cat", "/root/ROBOT.md"), "sbx-ask HOST --why");
      const { port } = models.addr;
      const url = `http://llm.host.sbx:${port}/v1`;
      assertEquals(
        await sbx.ok("exec", vm, "-c", "cat /root/.robot; echo /$ROBOT"),
        `m1:latest at ${url}/yes\n`,
      );
      assertStringIncludes(await sbx.ok("exec", vm, "-c", `curl -sS ${url}/models`), "m1:latest");
      const other = await sbx.cli("exec", vm, "-c", `curl -sS http://other.host.sbx:${port}/`);
      assertStringIncludes(other.stderr, "Could not resolve host");
      assertMatch(await sbx.ok("diff", vm), /result/);
      await sbx.ok("pull", vm);
      const branches = await git(repository, "branch", "--list", "--format=%(refname:short)");
      const branch = branches.split("\n").find((name) => name !== "main")!;
      assertEquals(await git(repository, "show", `${branch}:result`), "the task\nthis");
      assertMatch(await sbx.ok("list"), / all pulled /);
      assertEquals(await git(repository, "status", "--short"), "");
    });

    await t.step("the second one gets a name of its own, and its report says what it did", async () => {
      await git(repository, "checkout", "-q", "-b", "again");
      await Deno.writeTextFile(join(repository, "go"), "");
      await git(repository, "add", ".");
      await git(repository, "-c", "user.name=P", "-c", "user.email=p@example.com", "commit", "-qm", "go");
      const { code, stdout, stderr } = await sbx.cli(
        "agent",
        "robot",
        repository,
        "-p",
        "more",
        "-m",
        "llm/m1",
        "--json",
      );
      assertEquals(code, 7, stderr);
      const before = `${repository} has been worked on before; --continue goes on there:\n  ${vm} (Running`;
      assertStringIncludes(stderr, before);
      const report = JSON.parse(stdout.slice(stdout.lastIndexOf('{\n  "vm"')));
      assert(report.vm !== vm && report.vm.startsWith("robot-project"), report.vm);
      assertEquals([report.exit_code, report.changes.commits, report.changes.files], [7, 1, 1]);
    });

    await t.step(
      "a task that is sent goes into its terminal, or starts it again with its conversation",
      async () => {
        await sbx.ok("profile", "copy", "code", "racer");
        await Deno.writeTextFile(join(sbx.home, "profiles/racer/profile.toml"), RACER, { append: true });
        const person = { HOME: join(folder, "person") };
        const own = join(person.HOME, ".racer");
        await Deno.mkdir(join(own, "skills"), { recursive: true });
        await Deno.writeTextFile(join(own, "RULES.md"), "Be brief.\n");
        await Deno.writeTextFile(join(own, "skills/run"), "#!/bin/sh\necho skilled\n", { mode: 0o755 });
        await Deno.writeTextFile(join(own, "login"), "secret");
        await Deno.writeTextFile(
          join(own, "settings.json"),
          JSON.stringify({ telemetry: true, theme: "dark", hooks: ["date"], dir: join(repository, "src") }),
        );
        const start = ["agent", "racer", repository, "--detach", "--json", "--with-setup"];
        const refused = await sbx.run("sbx", start, person);
        assertStringIncludes(refused.stderr, "agent.setup_unapproved");
        const shown = await sbx.run("sbx", ["agent", "setup", "racer", "--json"], person);
        const { hash } = JSON.parse(shown.stdout);
        const ran = await sbx.run("sbx", [...start, "--approve", hash, "--no-programs"], person);
        assertEquals(ran.code, 0, ran.stderr);
        const started = JSON.parse(ran.stdout);
        assertEquals(
          (await sbx.ok(
            "exec",
            started.vm,
            "-c",
            "cd /root/.racer && cat RULES.md settings.json && skills/run && ls",
          ))
            .replaceAll(/\s+/g, " "),
          'Be brief. { "telemetry": false, "theme": "dark", "hooks": [], "dir": "/root/project/src", ' +
            '"trusted": [ "/root/project" ] } skilled RULES.md settings.json skills talks ',
        );
        const logs = () => sbx.ok("jobs", "logs", started.job.id);
        await eventually("it is at its prompt", async () => (await logs()).includes("ready"));
        const typed = JSON.parse(await sbx.ok("send", started.vm, "the first", "--json"));
        assertEquals(typed.job.id, started.job.id);
        await eventually("it has read it", async () => (await logs()).includes("did the first"));
        await eventually("it has ended", async () => {
          return (await sbx.api("GET", `/vms/${started.vm}/jobs`)).body.jobs[0].state === "Ended";
        });
        const sent = JSON.parse(await sbx.ok("send", started.vm, "next", "--json"));
        assert(sent.job.id !== started.job.id);
        await eventually(
          "it went on",
          async () => (await sbx.ok("jobs", "logs", sent.job.id)) === "on with next\n",
        );
        const none = await sbx.cli("send", vm, " ");
        assertEquals(none.code, 2);
        assertStringIncludes(none.stderr, "the text is empty");
        await sbx.ok("create", "plain");
        assertStringIncludes((await sbx.cli("send", "plain", "x")).stderr, '"plain" is the VM of no agent');
        await sbx.ok("delete", "plain", "--force");
        const talk = await sbx.ok("exec", started.vm, "-c", "cat /root/.racer/talks/1");
        await sbx.ok("delete", started.vm, "--force", "--keep-history");
        const { histories } = JSON.parse(await sbx.ok("agent", "history", "--json"));
        assertEquals(histories.map(({ agent, dir }: Parsed) => [agent, dir]), [["racer", repository]]);
        const anew = JSON.parse(
          await sbx.ok("agent", "racer", repository, "-p", "more", "--continue", "--detach", "--json"),
        );
        assertEquals(await sbx.ok("exec", anew.vm, "-c", "cat /root/.racer/talks/1"), talk);
        await eventually(
          "it goes on with its conversation in a new VM",
          async () => (await sbx.ok("jobs", "logs", anew.job.id)) === "on with more\n",
        );
        await sbx.ok("delete", anew.vm, "--force");
        await sbx.ok("agent", "history", "racer", repository, "--remove");
      },
    );

    await t.step("agents that race work apart, and their work is shown side by side", async () => {
      const taskless = await sbx.cli("agent", "racer", repository, "--race", "2");
      assertStringIncludes(taskless.stderr, "-p TEXT");
      const race = ["agent", "racer", repository, "--race", "2", "--name", "race", "-p", "win"];
      const { code, stdout, stderr } = await sbx.cli(...race, "--test", "grep -q 'race-1$' result", "--json");
      assertEquals(code, 0, stderr);
      const { vms } = JSON.parse(stdout.slice(stdout.lastIndexOf('{\n  "vms"')));
      assertEquals(
        vms.map((
          each: Parsed,
        ) => [each.vm, each.exit_code, each.test.exit_code, each.commits, each.files[0].path]),
        [["race-1", 0, 0, 1, "result"], ["race-2", 0, 1, 1, "result"]],
      );
      const shown = await sbx.cli("compare", "race-1", "race-2");
      assertEquals(
        shown.stdout.split("\n").map((line) => line.trim().split(/ {2,}/)).slice(0, 4),
        [["race-1", "race-2"], ["agent", "racer", "racer"], ["changed", "1 file +1 -0", "1 file +1 -0"], [
          "commits",
          "1",
          "1",
        ]],
      );
      assertStringIncludes(shown.stderr, "sbx pull race-1 takes its work");
      await sbx.ok("exec", "race-2", "-c", "cd /root/project && echo win race-1 >result");
      const [, second] = JSON.parse(await sbx.ok("compare", "race-1", "race-2", "--json")).vms;
      assertEquals(second.same_as, "race-1");
      assertStringIncludes((await sbx.cli("compare", "race-1", "race-1")).stderr, "named twice");

      // The best of both: one piece of a file of the first, and a file of the second.
      await sbx.ok("exec", "race-1", "-c", "cd /root/project && sed -i 's/^[19]$/& more/' file");
      await sbx.ok("exec", "race-2", "-c", "cd /root/project && echo two >two");
      const pieces = JSON.parse(await sbx.ok("compare", "race-1", "race-2", "--pieces", "--json"));
      const { id, pieces: ofFile } = pieces.vms[0].files.find(({ path }: Parsed) => path === "file");
      assertEquals(ofFile.map(({ piece, line }: Parsed) => [piece, line]), [[1, 1], [2, 9]]);
      const picks = ["--pick", `race-1:file:2@${id}`, "--pick", "race-2:two", "--branch", "best"];
      await sbx.ok("compare", "race-1", "race-2", ...picks);
      assertEquals(await git(repository, "diff", "--name-only", "again", "best"), "file\ntwo");
      assertEquals(await git(repository, "show", "best:file"), "1\n2\n3\n4\n5\n6\n7\n8\n9 more");
    });
  } finally {
    await sbx.dispose();
    await models.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
});
