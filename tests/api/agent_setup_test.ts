/**
 * sbx agent --with-setup before there is a VM: the real CLI and service, with the question
 * on a terminal and without one.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { decoySecret, refOf } from "../../lib/credential/mod.ts";
import { limitChild } from "../helper/child.ts";
import { Pty } from "../helper/pty.ts";
import { fromRoot } from "../helper/repo.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

const ROBOT = `
id = "robot"
name = "Robot"
description = "A robot."
revision = "1.0.0"

[packages]
apt = ["zoo"]

[agent]
command = ["robot"]
headless = ["robot", "{prompt}"]

[agent.acp]
command = ["robot", "acp"]

[agent.setup]
folders = [".robot"]
moved = { ".robot" = "ROBOT_HOME" }
texts = [".robot/RULES.md"]
never = { ".robot/auth.json" = "login" }

[agent.setup.settings.".robot/settings.json"]
format = "json"
programs = ["hooks.*"]
servers = ["servers.*"]
`;

const token = decoySecret("github");

async function makePlace() {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const at = (path: string) => join(dir, path);
  const write = async (path: string, text: string) => {
    await Deno.mkdir(dirname(at(path)), { recursive: true });
    await Deno.writeTextFile(at(path), text);
  };
  await write("sbx/profiles/robot/profile.toml", ROBOT);
  await write("ada/.robot/RULES.md", "Be brief.\n");
  await write("ada/.robot/auth.json", "{}");
  await write(
    "ada/.robot/settings.json",
    JSON.stringify({
      hooks: ["echo \u001b[2Jstart", "echo stop"],
      servers: { issues: { url: "https://mcp.example.com/", headers: { "X-Token": token } } },
    }),
  );
  await write("ada/shop/file", "content\n");
  const env = {
    HOME: at("ada"),
    SBX_HOME: at("sbx"),
    SBX_GATEWAY_PORT: "0",
    SBX_ASSETS_DIR: at("assets"),
    NO_COLOR: "1",
    DENO_DIR: Deno.env.get("DENO_DIR") ?? fromRoot(".deno/cache"),
  };
  const sbx = async (args: string[], stdin?: string, more: Record<string, string> = {}) => {
    const child = limitChild(
      new Deno.Command(fromRoot("bin/sbx"), {
        args,
        env: { ...env, ...more },
        cwd: at("ada"),
        stdin: stdin === undefined ? "null" : "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn(),
    );
    if (stdin !== undefined) {
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(stdin));
      await writer.close();
    }
    const { code, stdout, stderr } = await child.output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, stdout: text(stdout), stderr: text(stderr) };
  };
  const setup = async (...args: string[]) =>
    JSON.parse((await sbx(["agent", "setup", "robot", "shop", "--json", ...args])).stdout);
  return {
    at,
    env,
    sbx,
    setup,
    write,
    answer: async () => JSON.parse(await Deno.readTextFile(at("sbx/setup/robot.json"))),
    [Symbol.asyncDispose]: async () => {
      await sbx(["stop", "--all"]);
      await Deno.remove(dir, { recursive: true });
    },
  };
}

Deno.test(
  "a setup is shown, answered without a terminal by its hash, and on one by a question",
  options,
  async (t) => {
    await using place = await makePlace();
    const { at, sbx, setup, write, answer } = place;
    const start = ["agent", "robot", "shop", "-p", "work"];

    await t.step("without a terminal it is refused with the command that agrees to it", async () => {
      const refused = await sbx([...start, "--with-setup"]);
      assertEquals(refused.code, 125, refused.stderr);
      const { hash, approved, left_out, secrets } = await setup();
      assertEquals(approved, false);
      assertStringIncludes(
        refused.stderr,
        `sbx agent robot shop -p "…" --with-setup --approve ${hash.slice(0, 12)} agrees to it`,
      );
      assertStringIncludes(
        refused.stderr,
        "https://mcp.example.com/  (with X-Token)  (the policy decides about mcp.example.com)",
      );
      assert(!refused.stderr.includes("\u001b"), "nothing of a file moves the cursor");
      assertEquals(left_out, [{ path: ".robot/auth.json", reason: "login" }]);
      assertEquals(secrets.map(({ outcome }: { outcome: string }) => outcome), ["withheld"]);
      assert(!JSON.stringify(await setup()).includes(token));
      const json = await sbx([...start, "--with-setup", "--json"]);
      assertStringIncludes(json.stderr, '"code":"agent.setup_unapproved"');
      assertEquals(JSON.parse((await sbx(["list", "--json"])).stdout).vms, []);
    });

    await t.step("a key of a provider that is stored goes as its ref", async () => {
      const added = await sbx(["credentials", "add", "github"], `${token}\n`);
      assertEquals(added.code, 0, added.stderr);
      const { secrets } = await setup();
      assertEquals(secrets, [{
        file: ".robot/settings.json",
        place: "servers.issues.headers.X-Token",
        provider: "github",
        outcome: "ref",
      }]);
      const { stdout } = await sbx(["credentials", "list", "--json"]);
      assertStringIncludes(stdout, refOf("github", token));
    });

    await t.step("the hash that was shown is agreed to, and no other one", async () => {
      const wrong = await sbx([...start, "--with-setup", "--approve", "0123456789abcdef"]);
      assertMatch(
        wrong.stderr,
        /is not the one with the hash 0123456789abcdef\nsbx agent setup robot shop shows it/,
      );
      for (const hash of ["", "abc", "0123456789AB", "../../../../etc"]) {
        assertEquals((await sbx(["agent", "setup", "robot", "--approve", hash])).code !== 0, true, hash);
      }
      const { hash } = await setup();
      const on = await sbx([...start, "--with-setup", "--approve", hash.slice(0, 12)]);
      assertMatch(on.stderr, /image/, "it went on to the image, which is not there");
      assertEquals((await answer()).programs.length, 3);
      const again = await sbx([...start, "--with-setup"]);
      assertMatch(again.stderr, /your setup of robot goes in: 2 files, 3 of 3 programs, as agreed on \d{4}-/);
      const shown = await sbx(["agent", "setup", "robot", "shop"]);
      assertMatch(shown.stdout, /agreed to on [^]* where you agreed:\n +1 .*: goes in\n/);
      const texts = await setup("--approve", hash, "--no-programs");
      assertMatch((await sbx(["agent", "setup", "robot", "shop"])).stdout, /\n +1 .*: left out\n/);
      assertEquals(texts.programs.map((each: { approved: boolean }) => each.approved), [false, false, false]);
    });

    await t.step("a change of a file asks again, and names it", async () => {
      await write("ada/.robot/RULES.md", "Be long.\n");
      const changed = await sbx([...start, "--with-setup"]);
      assertEquals(changed.code, 125);
      assertMatch(changed.stderr, /RULES\.md +9 B +changed\n/);
    });

    await t.step("on a terminal it asks, about each of its programs too", async () => {
      const cwd = at("ada");
      const argv = [fromRoot("bin/sbx"), "agent", "robot", "shop", "--with-setup"];
      {
        await using pty = new Pty(argv, { cwd, env: place.env });
        await pty.shows("the question", /Put 2 files into the VM\?/);
        pty.press("n\r");
        assertEquals(await pty.ended(), 125);
        assertMatch(pty.text, /nothing was put into a VM/);
      }
      await using pty = new Pty(argv, { cwd, env: place.env });
      await pty.shows("the question", /Put 2 files into the VM\?/);
      pty.press("y\r");
      await pty.shows("the question about its programs", /Which of its programs/);
      pty.press("9\r");
      await pty.shows("that there is no ninth one", /numbers are 1 to 3/);
      pty.press("1 3\r");
      await pty.ended();
      assertMatch(pty.text, /no VM assets are installed/);
      assertEquals((await answer()).programs, [
        ".robot/settings.json#servers.issues",
        ".robot/settings.json#hooks.1",
      ]);
    });

    await t.step("an editor gets it as it was answered in a terminal", async () => {
      const hello = { protocolVersion: 1, clientCapabilities: {} };
      const line = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: hello });
      /** Its answer to the first message, and what it says aside. */
      const open = async () => {
        const child = limitChild(
          new Deno.Command(fromRoot("bin/sbx"), {
            args: ["acp", "robot", "shop", "--with-setup"],
            env: place.env,
            cwd: at("ada"),
            stdin: "piped",
            stdout: "piped",
            stderr: "piped",
          }).spawn(),
        );
        const writer = child.stdin.getWriter();
        await writer.write(new TextEncoder().encode(`${line}\n`));
        const answer = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
        const { value = "" } = await answer.read();
        await writer.close();
        answer.releaseLock();
        return value + await new Response(child.stderr).text();
      };
      assertMatch(await open(), /your setup of robot goes in: 2 files, 2 of 3 programs, as agreed on/);
      await write("ada/.robot/RULES.md", "Be kind.\n");
      assertEquals((await sbx(["acp", "robot", "shop", "--approve", "0123456789ab"], "")).code, 2);
      const { hash } = await setup();
      const shows = `in a terminal, sbx agent setup robot shop shows it, and with --approve ${
        hash.slice(0, 12)
      } agrees`;
      assertStringIncludes(await open(), shows);
    });

    await t.step("a variable says where it is", async () => {
      await write("ada/elsewhere/RULES.md", "From elsewhere.\n");
      const show = (ROBOT_HOME: string) =>
        sbx(["agent", "setup", "robot", "shop"], undefined, { ROBOT_HOME });
      const { stdout, stderr } = await show(at("ada/elsewhere"));
      assertStringIncludes(stderr, `~/.robot is read from ${at("ada/elsewhere")}, as a variable says`);
      assertMatch(stdout, /RULES\.md +16 B/);
      assertMatch((await show("elsewhere")).stderr, /ROBOT_HOME has a relative path/);
    });

    await t.step("an answer is forgotten, and options that do not go together are refused", async () => {
      assertEquals((await sbx(["agent", "setup", "robot", "--forget"])).code, 0);
      assertEquals((await setup()).approved, false);
      assertEquals((await sbx([...start, "--approve", "0123456789ab"])).code, 2);
      assertEquals((await sbx(["agent", "setup", "robot", "--forget", "--approve", "x"])).code, 2);
      assertEquals((await sbx(["agent", "setup", "robot", "--no-programs"])).code, 2);
      for (const HOME of ["", "/nonexistent"]) {
        const homeless = await sbx(["agent", "setup", "robot", "shop"], undefined, { HOME });
        assertMatch(homeless.stderr, /HOME names no folder/);
      }
      await Deno.remove(at("ada/.robot"), { recursive: true });
      const none = await sbx(["agent", "setup", "robot", "shop"]);
      assertEquals([none.code, none.stdout], [0, "there is no setup of Robot\n"]);
    });
  },
);
