/**
 * Project files: their reading, the parts that wait, and approvals (docs/design/contracts/04-profiles.md §4).
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import {
  approvalOf,
  approvalsIn,
  approve,
  changesOf,
  forget,
  isApproved,
  readProject,
  widenings,
} from "../../../../lib/config/project/mod.ts";

const RULE = '[rules.no-paste]\naction = "block"\nmatch = "http.request.host == \\"paste.example\\""\n';
const ASKS = '[env]\nCI = "true"\n[vm]\nram_gb = 8\n';

async function folder(text?: string | Uint8Array) {
  const dir = await Deno.makeTempDir();
  const path = join(dir, ".sbx.toml");
  if (typeof text === "string") await Deno.writeTextFile(path, text);
  else if (text) await Deno.writeFile(path, text);
  const home = { dir: join(dir, "home") };
  return { dir, path, home, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

Deno.test("a folder without a project file has none", async () => {
  await using place = await folder();
  assertEquals(await readProject(place.dir), undefined);
});

Deno.test("rules hold at once; variables and sizes wait until these bytes are approved", async () => {
  await using place = await folder(RULE);
  const narrow = (await readProject(place.dir))!;
  assertEquals(narrow.rules.map(({ id, action, line }) => [id, action, line]), [["no-paste", "block", 1]]);
  assert(isApproved(narrow, undefined));

  await Deno.writeTextFile(place.path, RULE + ASKS);
  const wide = (await readProject(place.dir))!;
  assertEquals(widenings(wide), ["vm.ram_gb = 8", 'env.CI = "true"']);
  assert(!isApproved(wide, await approvalOf(place.home, wide)));
  await approve(place.home, wide);
  const approval = await approvalOf(place.home, wide);
  assert(isApproved(wide, approval));

  await Deno.writeTextFile(place.path, RULE + ASKS.replace("8", "9"));
  const changed = (await readProject(place.dir))!;
  assert(!isApproved(changed, approval));
  assertEquals(changesOf(changed, approval), ["- vm.ram_gb = 8", "+ vm.ram_gb = 9"]);
});

Deno.test("an approval is private, of one folder and owner, and can be taken back", async () => {
  await using place = await folder(ASKS);
  const project = (await readProject(place.dir))!;
  await approve(place.home, project);
  const folderOfApprovals = join(place.home.dir, "projects");
  const [{ name }] = await Array.fromAsync(Deno.readDir(folderOfApprovals));
  assertEquals((await Deno.stat(join(folderOfApprovals, name))).mode! & 0o777, 0o600);
  assertEquals(await approvalOf(place.home, { ...project, dir: "/other" }), undefined);
  assertEquals(await approvalOf(place.home, { ...project, owner: 12345 }), undefined);
  assertEquals((await approvalsIn(place.home)).map(({ dir }) => dir), [project.dir]);
  assert(await forget(place.home, project.dir));
  assert(!await forget(place.home, project.dir));
  assertEquals(await approvalsIn(place.home), []);
});

Deno.test("a profile and ports wait for a person too", async () => {
  await using place = await folder('profile = "locked"\nports = [5173, 8080]\n');
  const project = (await readProject(place.dir))!;
  assertEquals([project.profile, project.ports], ["locked", [5173, 8080]]);
  assertEquals(widenings(project), [
    "profile = locked",
    "port 5173 of the VM on this host's loopback",
    "port 8080 of the VM on this host's loopback",
  ]);
  assert(!isApproved(project, undefined));
});

Deno.test("an agent and packages wait for a person too", async () => {
  const packages =
    '[packages]\napt = ["ripgrep", "jq=1.7.1-3"]\nnpm = ["typescript@5.9.3", "@a/b@1.0.0-rc.1"]\n';
  await using place = await folder(`agent = "claude"\n${packages}`);
  const project = (await readProject(place.dir))!;
  assertEquals(widenings(project), [
    "agent = claude",
    "Debian package ripgrep",
    "Debian package jq=1.7.1-3",
    "npm package typescript@5.9.3",
    "npm package @a/b@1.0.0-rc.1",
  ]);
  assert(!isApproved(project, undefined));
});

const INVALID: [title: string, text: string | Uint8Array, part: string][] = [
  ["an unknown key", 'a = 1\n[mounts]\nb = "/"\n', ":1"],
  ["a rule that allows", RULE.replace("block", "allow"), ":2"],
  ["a rule with a priority", RULE + "priority = -900\n", ":4"],
  ["a rule that does not compile", '[rules.a]\naction = "ask"\nmatch = "no_such.field == 1"\n', ":1"],
  ["the path of programs", '[env]\nPATH = "/evil"\n', ":2"],
  ["a library to load", '[env]\nLD_PRELOAD = "/evil.so"\n', ":2"],
  ["options of node", '[env]\nNODE_OPTIONS = "--require /evil.js"\n', ":2"],
  ["a proxy", '[env]\nhttps_proxy = "http://evil"\n', ":2"],
  ["another model API", '[env]\nANTHROPIC_BASE_URL = "http://evil"\n', ":2"],
  ["another folder of an agent's settings", '[env]\nCLAUDE_CONFIG_DIR = "/root/x/.evil"\n', ":2"],
  ["a switch of an agent's telemetry", '[env]\nDISABLE_TELEMETRY = "0"\n', ":2"],
  ["a wrapper of a compiler", '[env]\nRUSTC_WRAPPER = "./evil"\n', ":2"],
  ["options of go", '[env]\nGOFLAGS = "-toolexec=./evil"\n', ":2"],
  ["a variable of sbx", '[env]\nSBX_HOME = "/"\n', ":2"],
  ["a profile that is a path", 'profile = "../locked"\n', ":1"],
  ["a port of none", "ports = [0]\n", ":1"],
  ["a port named twice", "ports = [80, 80]\n", ":1"],
  ["a port of the host", 'ports = ["5173:22"]\n', ":1"],
  ["an agent that is a path", 'agent = "./evil"\n', ":1"],
  ["an option in place of a Debian package", '[packages]\napt = ["-oAPT::Update::Pre-Invoke::=x"]\n', ":2"],
  ["a Debian package to remove", '[packages]\napt = ["bash-"]\n', ":2"],
  ["a file in place of a Debian package", '[packages]\napt = ["./evil.deb"]\n', ":2"],
  ["an npm package without a version", '[packages]\nnpm = ["typescript"]\n', ":2"],
  ["an npm package of a moving version", '[packages]\nnpm = ["typescript@^5.9.3"]\n', ":2"],
  ["an npm package from elsewhere", '[packages]\nnpm = ["a@https://evil.example/a.tgz"]\n', ":2"],
  ["an npm package by another name", '[packages]\nnpm = ["a@npm:evil@1.0.0"]\n', ":2"],
  ["a package named twice", '[packages]\napt = ["jq", "jq"]\n', ":2"],
  ["packages of another kind", '[packages]\npip = ["requests"]\n', ":2"],
  ["more ports than a person can read", `ports = [${Array.from({ length: 17 }, (_, at) => at + 1)}]\n`, ":1"],
  ["a secret's name", '[env]\nANTHROPIC_API_KEY = "x"\n', ":2"],
  ["a control character in a value", '[env]\nA = "\\u001b[2J"\n', ":2"],
  ["a size beyond all limits", "[vm]\ncpus = 100000\n", ":2"],
  ["a reserved key", '[env.__proto__]\nA = "x"\n', ":1"],
  ["deep nesting", "a = " + "[".repeat(30_000), ":1"],
  ["too large a file", "#".repeat(70_000), "larger"],
  ["bytes that are no text", new Uint8Array([0xff, 0xfe]), "UTF-8"],
];
for (const [title, text, part] of INVALID) {
  Deno.test(`a project file is refused: ${title}`, async () => {
    await using place = await folder(text);
    const error = await assertRejects(() => readProject(place.dir));
    assertEquals((error as { code?: string }).code, "project.invalid");
    assertStringIncludes((error as Error).message, part);
  });
}

Deno.test("a link, a folder and a pipe in place of a project file are refused, without a wait", async () => {
  const makers = [
    (path: string) => Deno.symlink("/etc/hostname", path),
    (path: string) => Deno.symlink("/nowhere", path),
    (path: string) => Deno.mkdir(path),
    (path: string) => new Deno.Command("mkfifo", { args: [path] }).output(),
  ];
  for (const make of makers) {
    await using place = await folder();
    await make(place.path);
    const error = await assertRejects(() => readProject(place.dir));
    assertEquals((error as { code?: string }).code, "project.invalid");
  }
});
