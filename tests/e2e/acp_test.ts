/** An editor on the host, with the protocol's own client, and an agent in a VM: `sbx acp`. */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { EditorHandlers, Raw } from "../helper/acp.ts";
import { Editor } from "../helper/acp_editor.ts";
import { runChild } from "../helper/child.ts";
import { Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const PROFILE = `
[profiles.rules.ask-site]
action = "ask"
match = 'http.request.host == "asked.example"'
reason = "first contact with this site"

[agent]
command = ["sh"]
headless = ["sh", "-c", "true", "{prompt}"]

[agent.acp]
command = ["python3", "robot.py"]
`;

/** An agent that does what a prompt says: a file by the editor, a command in its terminal, a request. */
const ROBOT = `
import json, subprocess, sys
place = "/root/project"
calls = 0

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def read():
    line = sys.stdin.readline()
    if line == "":
        sys.exit()
    return json.loads(line)

def ask(method, **params):
    global calls
    calls += 1
    send(id=f"q{calls}", method=method, params={"sessionId": "s1", **params})
    while True:
        message = read()
        if message.get("id") == f"q{calls}" and "method" not in message:
            return message

def update(name, **fields):
    send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": name, **fields}})

def say(text):
    update("agent_message_chunk", content={"type": "text", "text": text})

def run(line):
    call = {"toolCallId": f"t{calls}", "title": line, "kind": "execute"}
    update("tool_call", status="pending", **call)
    answer = ask("session/request_permission", toolCall=call, options=[
        {"optionId": "yes", "name": "Run it", "kind": "allow_once"},
        {"optionId": "no", "name": "Leave it", "kind": "reject_once"}])
    if answer["result"]["outcome"].get("optionId") != "yes":
        update("tool_call_update", toolCallId=call["toolCallId"], status="failed")
        return say("not run")
    done = subprocess.run(["sh", "-c", line], cwd=place, capture_output=True, text=True)
    text = {"type": "text", "text": done.stdout + done.stderr}
    update("tool_call_update", toolCallId=call["toolCallId"], status="completed",
        content=[{"type": "content", "content": text}], rawOutput={"exit_code": done.returncode})

def prompt(text):
    word, _, rest = text.partition(" ")
    if word == "read":
        answer = ask("fs/read_text_file", path=f"{place}/{rest}")
        say(answer["result"]["content"] if "result" in answer else answer["error"]["message"])
    elif word == "write":
        path, _, content = rest.partition(" ")
        answer = ask("fs/write_text_file", path=f"{place}/{path}", content=content)
        say("written" if "result" in answer else answer["error"]["message"])
    elif word == "terminal":
        answer = ask("terminal/create", command="touch", args=["/tmp/of-the-host"], cwd=place)
        say(answer["error"]["message"])
    elif word == "run":
        run(rest)

while True:
    message = read()
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {},
            "agentInfo": {"name": "robot", "version": "1"}})
    elif method == "session/new":
        send(id=message["id"], result={"sessionId": "s1"})
    elif method == "session/prompt":
        prompt(params["prompt"][0]["text"])
        send(id=message["id"], result={"stopReason": "end_turn"})
`;

async function git(dir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runChild("git", { args: ["-C", dir, ...args] });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("an editor works with an agent of a VM", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const project = join(folder, "project");
  const world = await TestUpstreams.make(["asked.example"], () => new Response("the page\n"));
  try {
    await Deno.mkdir(project);
    await git(project, "init", "-q", "-b", "main");
    await Deno.writeTextFile(join(project, "robot.py"), ROBOT);
    await Deno.writeTextFile(join(project, "notes.txt"), "committed\n");
    await git(project, "add", ".");
    await git(project, "-c", "user.name=P", "-c", "user.email=p@example.com", "commit", "-qm", "first");
    await sbx.ok("profile", "copy", "code", "robot");
    await Deno.writeTextFile(join(sbx.home, "profiles/robot/profile.toml"), PROFILE, { append: true });
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });

    const chosen = (optionId: string) => ({ outcome: { outcome: "selected", optionId } });
    let answer = (_question: Raw): string => "deny";
    const handlers: EditorHandlers = {
      "session/request_permission": (question) => chosen(answer(question)),
      "fs/read_text_file": ({ path }) => ({ content: `not saved yet: ${path}` }),
      "fs/write_text_file": async ({ path, content }) => {
        await Deno.writeTextFile(path, content);
        return {};
      },
    };
    await using editor = new Editor(sbx, project, ["robot", "--files", "write"], handlers);

    await t.step("it starts the agent in a VM of its own", async () => {
      const { agentInfo } = await editor.open(project);
      assertEquals([agentInfo.name, agentInfo.title], ["sbx-robot", "Code in the VM robot-project"]);
      assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms[0].folder.dir, project);
    });

    await t.step(
      "a file of the folder is read by the editor, and none outside of it or like a secret",
      async () => {
        assertEquals((await editor.turn("read notes.txt")).text, `not saved yet: ${project}/notes.txt`);
        assertStringIncludes((await editor.turn("read ../other.txt")).text, "outside of the folder");
        assertStringIncludes(
          (await editor.turn("read .git/config")).text,
          "belongs to programs of the person",
        );
        await Deno.writeTextFile(join(project, ".env"), "API_KEY=x\n");
        assertStringIncludes((await editor.turn("read .env")).text, "looks like a secret");
      },
    );

    await t.step(
      "a file is written after a question with its difference, and not without a yes",
      async () => {
        answer = () => "deny";
        const refused = await editor.turn("write notes.txt changed");
        assertStringIncludes(refused.text, "did not allow");
        assertEquals(await Deno.readTextFile(join(project, "notes.txt")), "committed\n");
        const [{ toolCall: { title, content } }] = refused.questions;
        assertEquals(title, "sbx asks: write notes.txt in your own folder?");
        const path = join(project, "notes.txt");
        assertEquals(content, [{ type: "diff", path, oldText: "committed\n", newText: "changed" }]);
        answer = () => "once";
        assertEquals((await editor.turn("write notes.txt changed")).text, "written");
        assertEquals(await Deno.readTextFile(path), "changed");
      },
    );

    await t.step("a command runs in the VM, once the person has permitted it", async () => {
      answer = () => "no";
      assertEquals((await editor.turn("run touch /root/ran")).text, "not run");
      answer = () => "yes";
      const { calls, questions } = await editor.turn("run ls /root/ran; hostname; cat notes.txt");
      assertEquals(questions[0].options.map(({ name }: Raw) => name), ["Run it", "Leave it"]);
      const { status, content, rawOutput } = calls.at(-1)!;
      assertEquals([status, rawOutput], ["completed", { exit_code: 0 }]);
      assertMatch(content[0].content.text, /^robot-project\ncommitted\nls: cannot access '\/root\/ran'/);
    });

    await t.step("a terminal of the host is not to be had", async () => {
      assertMatch((await editor.turn("terminal")).text, /method not found/i);
      await assertRejects(() => Deno.stat("/tmp/of-the-host"), Deno.errors.NotFound);
    });

    await t.step("an ask of sbx appears with its rule and reason, and is answered there", async () => {
      const isSbx = ({ toolCall }: Raw) => toolCall.toolCallId.startsWith("sbx-");
      const curl = "run curl -s -w ' %{http_code}' https://asked.example/page";
      const outputOf = ({ calls }: { calls: Raw[] }) =>
        calls.findLast(({ toolCallId, content }) => content && !toolCallId.startsWith("sbx-")).content[0]
          .content
          .text;
      answer = (question) => isSbx(question) ? "once" : "yes";
      const allowed = await editor.turn(curl);
      assertEquals(outputOf(allowed), "the page\n 200");
      assertEquals(world.received.length, 1);
      const ended = allowed.calls.findLast(({ toolCallId }) => toolCallId.startsWith("sbx-"));
      assertEquals(ended.status, "completed");
      answer = (question) => isSbx(question) ? "deny" : "yes";
      const denied = await editor.turn(curl);
      const shown = denied.questions.find(isSbx)!;
      assertMatch(
        shown.toolCall.title,
        /^sbx asks: allow http\.request GET https:\/\/asked\.example\/page\?$/,
      );
      const [{ content: { text } }] = shown.toolCall.content;
      assertStringIncludes(text, "Rule ask-site: first contact with this site");
      assertMatch(text, /In a terminal: sbx allow a\S+, or sbx deny/);
      assertMatch(outputOf(denied), / 403$/);
      assertStringIncludes(outputOf(denied), "ask-site");
      assertEquals(world.received.length, 1);
    });

    await t.step("the work comes back as a branch", async () => {
      answer = () => "yes";
      await editor.turn("run echo done >result");
      await sbx.ok("pull", "robot-project");
      assertEquals(await git(project, "show", "sbx/robot-project:result"), "done");
      assert(JSON.parse(await sbx.ok("list", "--json")).vms.length === 1);
    });
  } finally {
    await sbx.dispose();
    await world.close();
    await Deno.remove(folder, { recursive: true });
  }
});
