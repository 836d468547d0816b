/**
 * A setup (`sbx agent --with-setup`) whose folders have links, devices, files of other
 * users, and more than it may have.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { FILES_MAX, Setup, UNPACK_HISTORY } from "../../../lib/setup/mod.ts";
import { runChild } from "../../helper/child.ts";
import { tar, type TarFile } from "../../helper/tar.ts";

const { agent } = await loadProfile({ profilesDir: "/nonexistent" }, "claude");

async function makeHome(files: Record<string, string>) {
  const home = await Deno.realPath(await Deno.makeTempDir());
  const at = (path: string) => join(home, path);
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(dirname(at(path)), { recursive: true });
    await Deno.writeTextFile(at(path), text);
  }
  const read = () =>
    Setup.read("claude", agent!.setup!, { home, repository: "/nowhere", refOf: () => undefined });
  const reasons = async () => {
    const { files, leftOut } = await read();
    return { files: files.map(({ path }) => path), left: leftOut.map(({ path, reason }) => [path, reason]) };
  };
  return { home, at, read, reasons, [Symbol.asyncDispose]: () => Deno.remove(home, { recursive: true }) };
}

Deno.test("no link is followed out of the folder, and no device or pipe is read", async () => {
  await using place = await makeHome({
    ".ssh/id_ed25519": "PRIVATE",
    "notes/NOTES.md": "PRIVATE",
    ".claude/skills/a/SKILL.md": "a",
  });
  const { at, reasons } = place;
  await Deno.symlink("../.ssh/id_ed25519", at(".claude/CLAUDE.md"));
  await Deno.symlink(at("notes"), at(".claude/commands"));
  await Deno.symlink("a/SKILL.md", at(".claude/skills/inside.md"));
  await Deno.symlink("a", at(".claude/skills/folder"));
  await Deno.symlink("nothing", at(".claude/skills/broken"));
  await Deno.symlink("/proc/self/environ", at(".claude/skills/proc"));
  await Deno.symlink(".ssh/id_ed25519", at(".claude.json"));
  assertEquals((await runChild("mkfifo", { args: [at(".claude/skills/pipe")] })).code, 0);
  assertEquals(await reasons(), {
    files: [".claude/skills/a/SKILL.md", ".claude/skills/inside.md"],
    left: [
      [".claude.json", "a link"],
      [".claude/CLAUDE.md", "a link that leads out of its folder"],
      [".claude/commands", "a link that leads out of its folder"],
      [".claude/skills/broken", "a link to nothing"],
      [".claude/skills/folder", "a link to a folder"],
      [".claude/skills/pipe", "not a regular file"],
      [".claude/skills/proc", "a link that leads out of its folder"],
    ],
  });
});

Deno.test("a link in a skill brings no conversation, login or other file of the agent's folder", async () => {
  await using place = await makeHome({
    ".claude/projects/p/1.jsonl": "PRIVATE",
    ".claude/.credentials.json": "PRIVATE",
    ".claude/other/x": "PRIVATE",
    ".claude/skills/a/SKILL.md": "a",
  });
  const { at, reasons } = place;
  await Deno.symlink(".credentials.json", at(".claude/CLAUDE.md"));
  await Deno.symlink("../../projects/p/1.jsonl", at(".claude/skills/a/notes.md"));
  await Deno.symlink(at(".claude/other/x"), at(".claude/skills/a/other.md"));
  const { files, left } = await reasons();
  assertEquals(files, [".claude/skills/a/SKILL.md"]);
  assertEquals(left.slice(0, 3), [
    [".claude/CLAUDE.md", "a link to .claude/.credentials.json, which is not part of a setup"],
    [".claude/skills/a/notes.md", "a link to .claude/projects/p/1.jsonl, which is not part of a setup"],
    [".claude/skills/a/other.md", "a link that leads out of its folder"],
  ]);
});

const HEADS = [
  "---\nhooks: x\n---\n",
  "--- \nhooks: x\n---\n",
  "---\nhooks: x\n--- \n",
  "\n---\nhooks: x\n---\n",
  "---\nhooks: x",
  "---\n{name: x, hooks: {a: b}}\n---\n",
  '---\n"h\\u006foks": x\n---\n',
  "---\n? hooks\n: x\n---\n",
  "---\n!!str hooks: x\n---\n",
  "---\na: &a {hooks: x}\n<<: *a\n---\n",
  "---\ndescription: no: yaml\nhooks: x\n---\n",
];

Deno.test("a text of Markdown that runs something is asked about, in every notation of its head", async () => {
  for (const head of HEADS) {
    await using place = await makeHome({ ".claude/agents/a.md": `${head}text` });
    assertEquals((await place.read()).programs.map(({ id }) => id), [".claude/agents/a.md"], head);
  }
  await using place = await makeHome({ ".claude/agents/a.md": "---\ndescription: React hooks: all\n---\n" });
  assertEquals((await place.read()).programs, []);
});

Deno.test("no key makes a program the namesake of another one, to go with its answer", async () => {
  const one = { "0.hooks.0": { type: "command", command: "evil" } };
  const hooks = { P: [{ hooks: one }], "P.0.hooks": { 0: { hooks: ["harmless"] } } };
  await using place = await makeHome({ ".claude/settings.json": JSON.stringify({ hooks }) });
  const ids = (await place.read()).programs.map(({ id }) => id);
  assertEquals([ids.length, new Set(ids).size], [2, 2], ids.join(" "));
});

Deno.test("a variable by which programs load code is asked about, as a hook is", async () => {
  const env = { BASH_ENV: "/root/a.sh", LD_PRELOAD: "/a.so", PAGER: "sh -c evil", EDITOR: "vi", TZ: "UTC" };
  await using place = await makeHome({
    ".claude/settings.json": JSON.stringify({ env, other: { GIT_SSH: "/a" } }),
  });
  assertEquals((await place.read()).programs.map(({ name }) => name), [
    "env.BASH_ENV",
    "env.LD_PRELOAD",
    "env.PAGER",
    "other.GIT_SSH",
  ]);
});

Deno.test("a password in an address, behind an option or as a default stays", async () => {
  const mcpServers = {
    a: { command: "x", args: ["--password", "hunter2", "-u", "me:hunter2", "postgres://me:hunter2@db/x"] },
    b: { url: "https://me:hunter2@mcp.example/", headers: { "X-Token": "${T:-hunter2}" } },
    c: { command: "x", args: ["--token", "${TOKEN}", "--port", "8080", "postgres://me:${PASS}@db/x"] },
  };
  await using place = await makeHome({
    ".claude.json": JSON.stringify({ mcpServers }),
    ".claude/CLAUDE.md": "the database is postgres://me:hunter2@db/x\n",
  });
  const setup = await place.read();
  const approved = new Set(setup.programs.map(({ id }) => id));
  const files = await setup.render({ place: "/root/x", forced: {}, approved });
  const text = files.map(({ bytes }) => new TextDecoder().decode(bytes)).join("\n");
  assert(!text.includes("hunter2"), text);
  for (const kept of ["${TOKEN}", "8080", "me:${PASS}@db"]) assert(text.includes(kept), kept);
  assert(setup.programs.every(({ line }) => !line.includes("hunter2")));
});

Deno.test(
  "a file of another user stays, and a folder of another user, or one that everyone may write to, is refused",
  {
    ignore: Deno.uid() !== 0,
  },
  async () => {
    await using place = await makeHome({ ".claude/CLAUDE.md": "mine", ".claude/agents/theirs.md": "theirs" });
    const { at, read, reasons } = place;
    await Deno.chown(at(".claude/agents/theirs.md"), 65534, 65534);
    assertEquals(await reasons(), {
      files: [".claude/CLAUDE.md"],
      left: [[".claude/agents/theirs.md", "belongs to another user"]],
    });
    await Deno.chmod(at(".claude"), 0o777);
    await assertRejects(read, SbxError, `everyone may write to ${at(".claude")}`);
    await Deno.chmod(at(".claude"), 0o755);
    await Deno.chown(at(".claude"), 65534, 65534);
    const error = await assertRejects(read, SbxError, "belongs to another user");
    assertEquals(error.code, "agent.setup_foreign");
  },
);

Deno.test("big files stay, and too many files are refused", async () => {
  await using place = await makeHome({
    ".claude/CLAUDE.md": "x".repeat(1024 * 1024 + 1),
    ".claude/skills/a/node_modules/x/index.js": "1",
    ".claude/skills/a/.git/config": "1",
    ".claude/settings.json": "{ not json",
  });
  const { at, read, reasons } = place;
  await Deno.mkdir(at(`.claude/skills/${"d/".repeat(20)}`), { recursive: true });
  const { files, left } = await reasons();
  assertEquals(files, []);
  assertEquals(left.map(([path, reason]) => [path.split("/").at(-1), reason]), [
    ["CLAUDE.md", "over 1048576 bytes"],
    [".git", "not written by you"],
    ["node_modules", "not written by you"],
    ["d", "below 16 folders"],
    ["settings.json", "cannot be read as json"],
  ]);
  await Deno.mkdir(at(".claude/agents"));
  for (let each = 0; each <= FILES_MAX; each++) await Deno.writeTextFile(at(`.claude/agents/${each}.md`), "");
  const error = await assertRejects(read, SbxError, `${FILES_MAX} files`);
  assertEquals(error.code, "agent.setup_limit");
});

Deno.test("settings that would change a reader's objects, or nest without end, stay", async () => {
  for (
    const text of [
      '{"__proto__": {"hooks": {}}}',
      '{"\\u005f_proto__": {"hooks": {}}}',
      `${'{"a":'.repeat(200)}1${"}".repeat(200)}`,
      `// "\n${"[".repeat(50_000)}`,
    ]
  ) {
    await using place = await makeHome({ ".claude/settings.json": text });
    assertEquals(await place.reasons(), {
      files: [],
      left: [[".claude/settings.json", "cannot be read as json"]],
    });
  }
  assert(!("hooks" in {}));
});

Deno.test("aliases of YAML that stand for more values than there is time for stay", async () => {
  const { agent } = await loadProfile({ profilesDir: "/nonexistent" }, "cn");
  const [path] = Object.entries(agent!.setup!.settings).find(([, { format }]) => format === "yaml")!;
  const levels = Array.from({ length: 30 }, (_, at) => `a${at + 1}: &a${at + 1} [${`*a${at},`.repeat(9)}]`);
  for (const text of [`a0: &a0 [x]\n${levels.join("\n")}\n`, "a: &a [*a]\n"]) {
    await using place = await makeHome({ [path]: text });
    const options = { home: place.home, repository: "/nowhere", refOf: () => undefined };
    const { files, leftOut } = await Setup.read("cn", agent!.setup!, options);
    assertEquals([files, leftOut.map(({ reason }) => reason)], [[], ["cannot be read as yaml"]]);
  }
});

Deno.test("what is read is what goes: a file that changes after it was shown does not", async () => {
  await using place = await makeHome({ ".claude/CLAUDE.md": "shown" });
  const setup = await place.read();
  await Deno.writeTextFile(place.at(".claude/CLAUDE.md"), "swapped");
  const files = await setup.render({ place: "/root/x", forced: {}, approved: new Set() });
  assertEquals(files.map(({ bytes }) => new TextDecoder().decode(bytes)), ["shown"]);
});

Deno.test("an archive of conversations that a VM made up brings nothing else into the next one, and no program, link or device", async () => {
  const PROJECTS = "/root/.claude/projects";
  const talk = { name: "root/.claude/projects/a/1.jsonl", content: "{}\n" };
  const archives: Record<string, TarFile[]> = {
    others: [
      talk,
      { name: "root/.claude/settings.json", content: "{}" },
      { name: "root/.bashrc", content: "evil" },
      { name: "etc/profile", content: "evil" },
      { name: "root/.claude/projects/a/run", content: "evil", mode: 0o4755 },
      { name: "root/.claude/projects/a/link", type: "2", link: "/etc/passwd" },
      { name: "root/.claude/projects/a/pipe", type: "6" },
    ],
    linked: [{ name: "root/.claude", type: "2", link: "../../../outside" }, talk],
    replaced: [talk, { name: "root/.claude/projects", type: "2", link: "/outside" }],
    up: [talk, { name: "root/../../../../outside/up", content: "evil" }],
    absolute: [talk, { name: "/outside/absolute", content: "evil" }],
    hard: [talk, { name: "root/.claude/projects/a/hard", type: "1", link: "../../../../outside/kept" }],
  };
  for (const [name, files] of Object.entries(archives)) {
    const dir = await Deno.makeTempDir();
    const at = (path: string) => join(dir, path);
    await Deno.mkdir(at("outside"));
    await Deno.writeTextFile(at("outside/kept"), "kept");
    await Deno.mkdir(at("vm/root/.claude"), { recursive: true });
    await Deno.writeTextFile(at("vm/root/.claude/settings.json"), "mine");
    await Deno.writeFile(at("x.tar"), tar(files));
    await runChild("sh", { args: ["-c", UNPACK_HISTORY, "sh", at("vm"), at("x.tar"), PROJECTS] });
    const found = await runChild("find", { args: [dir, "!", "-type", "d", "-printf", "%P %y %m\n"] });
    const lines = new TextDecoder().decode(found.stdout).trim().split("\n").sort();
    const allowed = [
      "outside/kept f 644",
      "vm/root/.claude/settings.json f 644",
      "vm/root/.claude/projects/a/1.jsonl f 600",
      "vm/root/.claude/projects/a/run f 600",
    ];
    assertEquals(lines.filter((line) => !allowed.includes(line)), [], name);
    assertEquals(await Deno.readTextFile(at("vm/root/.claude/settings.json")), "mine", name);
    if (name === "others") assert(lines.includes("vm/root/.claude/projects/a/1.jsonl f 600"));
    await Deno.remove(dir, { recursive: true });
  }
});
