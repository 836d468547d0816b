/** Completion as shells have it: bash, zsh and fish ask the real CLI, which asks a running gateway. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { offer } from "../../cmd/sbx/admin/complete_words.ts";
import { runChild } from "../helper/child.ts";
import { Pty } from "../helper/pty.ts";
import { main, Place } from "./cli_harness.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

const SESSION = "00000000-0000-4000-8000-000000000002";
/** Answers of the service by path; a word that is no answer waits for ever. */
const ANSWERS = {
  "/credentials/list": {
    credentials: [
      { ref: "ref-1", provider: "anthropic", label: "work" },
      { ref: "ref-2", provider: "anthropic", label: "$(touch hole)" },
      { ref: "ref-3", provider: "openai" },
    ],
  },
  "/credentials/providers": { providers: [{ id: "anthropic", title: "Anthropic" }] },
  "/vms/demo/snapshots/list": {
    snapshots: [{ id: "20260101T000000Z-1", created_unix_ms: 0, label: "before" }],
  },
  "/vms/demo/states": {
    states: [1, 2].map((number) => ({ number, at_unix_ms: 0, reason: "before a turn" })),
  },
  // A guest chooses its names.
  "/vms/demo/files/list": {
    entries: [
      { path: "/etc", type: "directory" },
      { path: "/hosts file", type: "file" },
      { path: "/$(touch hole)", type: "file" },
      { path: "/esc\x1b[2J", type: "file" },
    ],
  },
  "/vms/deleted": { vms: [{ name: "gone", deleted_at: "2026-01-01T00:00:00Z" }] },
  "/vms/demo/services": {
    jobs: [{ id: "job-3", state: "Running", service: { name: "postgres" } }, { id: "job-4", state: "Ended" }],
  },
  "/jobs": { jobs: [{ id: "job-1", state: "Running" }, { id: "job-2", state: "Ended" }] },
  "/asks": { asks: [{ ask_id: "a1b2", event_type: "http.request", rule_id: "others" }] },
  [`/sessions/${SESSION}/events`]: {
    events: [
      { common: { event_id: "0123456789ab", event_type: "dns.query" } },
      { common: { event_id: "1123456789ab", event_type: "x\x1b[31m\ny" } },
    ],
  },
  "/enforcement/changes": { changes: [{ change_id: "c0ffee000000", at: "2026-01-01", kind: "rule" }] },
  "/profiles/mine/mcp/servers/list": { servers: [{ name: "github" }, { name: "slow" }] },
  "/profiles/mine/mcp/servers/github/tools/list": {
    tools: [{ namespaced_name: "github__search", description: "Search\ncode" }],
    vm: "demo",
  },
  "/templates": { templates: Array.from({ length: 500 }, (_, at) => ({ id: `t${at}`, created_at: "" })) },
  "/detection": { rules: [{ id: "r", pack_id: "corp.exfiltration", scope: "runtime" }] },
};

Deno.test(
  "completion: names and ids of this user's things, bounded in number and time",
  options,
  async (t) => {
    await using place = await Place.make(ANSWERS);
    assertEquals((await place.sbx(["list"])).code, 0);
    for (const [name, value] of [["SBX_HOME", place.dir], ["SBX_RUN_DIR", place.home.runDir]]) {
      Deno.env.set(name, value);
    }
    const words = async (...typed: string[]) => (await offer(typed)).words.map(({ word }) => word);

    await t.step("each kind of word", async () => {
      for (
        const [line, expected] of [
          [["exec", ""], ["demo"]],
          [["delete", "demo", ""], []],
          [["restore", ""], ["gone"]],
          [["run", "--credential", "anth"], ["anthropic=work", "anthropic=$(touch hole)"]],
          [["credentials", "revoke", ""], ["ref-1", "ref-2", "ref-3"]],
          [["credentials", "add", "a"], ["anthropic"]],
          [["snapshots", "restore", "demo", ""], ["20260101T000000Z-1"]],
          [["jobs", "attach", ""], ["job-1"]],
          [["services", "restart", "demo", ""], ["postgres"]],
          [["services", "logs", "demo", "p"], ["postgres"]],
          [["services", "start", "nobody", ""], []],
          [["jobs", "logs", ""], ["job-1", "job-2"]],
          [["allow", ""], ["a1b2"]],
          [["why", ""], ["1123456789ab", "0123456789ab"]],
          [["why", "0123456789ab", SESSION], [SESSION]],
          [["policy", "undo", "c"], ["c0ffee000000"]],
          [["mcp", "refresh", "-p", "mine", ""], ["github", "slow"]],
          [["mcp", "call", "--profile=mine", ""], ["github__search"]],
          [["detection", "remove", ""], ["corp.exfiltration"]],
          [["cp", "d"], ["demo:"]],
          [["cp", "demo:/etc"], ["demo:/etc/"]],
          [["cp", "demo:/ro"], ["demo:/root/"]],
          [["cp", "demo:/etc/"], ["demo:/etc/etc/", "demo:/etc/hosts file", "demo:/etc/$(touch hole)"]],
          [["cp", "demo:sub/h"], ["demo:sub/hosts file"]],
          [["cp", "asleep:/"], []],
          [["exec", "demo", "--cwd", "/ro"], ["/root/"]],
          [["exec", "demo", "--cwd=/etc/"], ["--cwd=/etc/etc/"]],
          [["exec", "demo", "--cwd", ""], ["etc/"]],
          [["exec", "asleep", "--cwd", "/"], []],
          [["exec", "--cwd", "/"], []],
          [["cp", "none:/"], []],
          [["undo", "demo", "--to", ""], ["2", "1", "20260101T000000Z-1"]],
          [["fork", "demo", "--at", "2"], ["2", "20260101T000000Z-1"]],
        ] as [string[], string[]][]
      ) assertEquals(await words(...line), expected, line.join(" "));
      assertEquals((await offer(["cp", "d"])).paths, "files");
      assertEquals((await offer(["cp", "demo:/etc"])).paths, undefined);
    });
    await t.step("a description is one short line, and never a control character's", async () => {
      const { stdout, stderr } = await place.sbx(["completions", "words", "--", "why", "1"]);
      assertEquals([stdout, stderr], ["1123456789ab\tx�[31m y, refused\n", ""]);
      const { words: [tool] } = await offer(["mcp", "call", "-p", "mine", "git"]);
      assertEquals(tool.about, "Search code");
    });
    await t.step("at most 200 words", async () => {
      assertEquals((await words("template", "remove", "")).length, 200);
    });
    await t.step("a service that does not answer completes nothing, and the shell goes on", async () => {
      assertEquals(await words("mcp", "refresh", "-p", "hangs", ""), []);
      const { code, stdout, stderr } = await place.sbx([
        "completions",
        "words",
        "--",
        "mcp",
        "login",
        "-p",
        "hangs",
        "",
      ]);
      assertEquals([code, stdout, stderr], [0, "", ""]);
    });
    await t.step("another machine is not asked", async () => {
      assertEquals(await words("--host", "ssh://build.example", "exec", ""), []);
      assertEquals(await words("--host=ssh://build.example", "ex"), ["exec"]);
    });
    await t.step("without a service it starts none", async () => {
      const dir = await Deno.makeTempDir();
      try {
        Deno.env.set("SBX_HOME", dir);
        Deno.env.set("SBX_RUN_DIR", join(dir, "run"));
        assertEquals(await words("exec", ""), []);
        assertEquals(await Array.fromAsync(Deno.readDir(dir)), []);
      } finally {
        await Deno.remove(dir, { recursive: true });
        for (const name of ["SBX_HOME", "SBX_RUN_DIR"]) Deno.env.delete(name);
      }
    });
  },
);

/**
 * Keys on a line, and what the line is then; `;` ends the word, and the blank that a
 * shell puts after a whole one shows.
 */
const LINES = {
  bash: [
    ["true; A=1 sbx exe\t", "true; A=1 sbx exec"],
    ["sbx run --arch=x\t;", "sbx run --arch=x86_64 ;"],
    ["sbx cp de\t/etc;", "sbx cp demo:/etc;"],
    ["sbx cp demo:/et\t;", "sbx cp demo:/etc/;"],
    ["sbx cp demo:/etc/h\t;", "sbx cp demo:/etc/hosts\\ file ;"],
    ["sbx cp demo:/etc/$\t;", "sbx cp demo:/etc/\\$\\(touch\\ hole\\) ;"],
    ["sbx run --credential 'anthropic=w\t;", "sbx run --credential 'anthropic=work' ;"],
    ["sbx run --credential anthropic=$\t;", "sbx run --credential anthropic=\\$\\(touch\\ hole\\) ;"],
    ["sbx policy test x --rules=my\t;", "sbx policy test x --rules=my\\ file ;"],
    ["sbx push fold\t;", "sbx push folder/;"],
  ],
  zsh: [
    ["sbx exec d\t;", "sbx exec demo;"],
    ["sbx cp de\t/etc;", "sbx cp demo:/etc;"],
    ["sbx cp demo:/et\t;", "sbx cp demo:/etc/;"],
    ["sbx cp demo:/etc/h\t;", "sbx cp demo:/etc/hosts\\ file;"],
    ["sbx run --credential anthropic=\\$\t;", "sbx run --credential anthropic=\\$\\(touch\\ hole\\);"],
    ["sbx policy test x --rules=my\t;", "sbx policy test x --rules=my\\ file;"],
  ],
};

/** The word that the shell prints, and then its prompt: keys before that are the terminal's own text. */
const READY = /^ready[^]*^\$/m;

Deno.test("completion: the scripts in bash, zsh and fish", options, async (t) => {
  await using place = await Place.make(ANSWERS);
  assertEquals((await place.sbx(["list"])).code, 0);
  const bin = join(place.dir, "bin"), cwd = join(place.dir, "cwd");
  await Deno.mkdir(join(cwd, "folder"), { recursive: true });
  await Deno.mkdir(bin);
  await Deno.writeTextFile(join(cwd, "my file"), "");
  const script = `#!/bin/sh\nexec "${Deno.execPath()}" run -A --quiet "${main}" "$@"\n`;
  await Deno.writeTextFile(join(bin, "sbx"), script, { mode: 0o755 });
  const env = {
    PATH: `${bin}:${Deno.env.get("PATH")}`,
    SBX_HOME: place.dir,
    SBX_RUN_DIR: place.home.runDir,
  };
  const shells = {
    bash: { argv: ["bash", "--norc", "--noprofile", "-i"], setUp: 'eval "$(sbx completions bash)"' },
    zsh: {
      argv: ["zsh", "-f", "-i"],
      setUp: "autoload -Uz compinit; compinit -D -u; source <(sbx completions zsh)",
    },
  };
  for (const [name, { argv, setUp }] of Object.entries(shells)) {
    await t.step(name, async () => {
      await using pty = new Pty(argv, { cwd, env });
      pty.press(`${setUp}; PS1='$ '; echo rea""dy\r`);
      await pty.shows("the shell is ready", READY);
      for (const [keys, shown] of LINES[name as keyof typeof LINES]) {
        pty.press(keys);
        await pty.shows(keys, new RegExp(`^\\$ ${RegExp.escape(shown)}\\s*$`, "m"));
        pty.press("\x15");
      }
    });
  }
  await t.step("zsh: as a function of $fpath, from the first key on", async () => {
    await Deno.writeTextFile(join(bin, "_sbx"), (await place.sbx(["completions", "zsh"])).stdout);
    await using pty = new Pty(shells.zsh.argv, { cwd, env });
    pty.press(`fpath=(${bin} $fpath); autoload -Uz compinit; compinit -D -u; PS1='$ '; echo rea""dy\r`);
    await pty.shows("the shell is ready", READY);
    pty.press("sbx verif\t;");
    await pty.shows("the word", /^\$ sbx verify;\s*$/m);
  });
  await t.step("fish", async () => {
    const complete = async (line: string) => {
      const { stdout, stderr } = await runChild("fish", {
        args: ["--no-config", "-c", "sbx completions fish | source; complete -C $argv[1]", line],
        cwd,
        env,
      });
      assertEquals(new TextDecoder().decode(stderr), "");
      return new TextDecoder().decode(stdout).trimEnd().split("\n");
    };
    for (
      const [line, expected] of [
        ["sbx run --arch=", ["--arch=arm64", "--arch=x86_64"]],
        ["sbx settings set ledger.on_full ", ["pause", "block"]],
        ["sbx cp de", ["demo:\tRunning, code"]],
        ["sbx policy test x --rules=my", ["--rules=my file"]],
        ["sbx push fold", ["folder/\tDirectory"]],
      ] as [string, string[]][]
    ) assertEquals(await complete(line), expected, line);
  });
  assertEquals(await Array.fromAsync(Deno.readDir(cwd), ({ name }) => name).then((all) => all.sort()), [
    "folder",
    "my file",
  ]);
});
