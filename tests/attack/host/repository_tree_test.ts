/** Trees, links and submodules of a guest that would land outside of a repository, or in its `.git`. */
import { assertEquals } from "@std/assert";
import { Forge, type RawEntry, take } from "../../helper/hostile_guest.ts";
import { git, World } from "../../helper/repository.ts";

const latin = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** Codes of taking one tree each: made of a blob's id. */
async function codesOf(cases: [string, (blob: string, forge: Forge) => RawEntry[] | Promise<RawEntry[]>][]) {
  await using world = await World.ofRepository(
    "echo x >keep.txt; mkdir d; echo y >d/in.txt; ln -s /etc/hostname own",
  );
  const forge = Forge.of(world);
  const blob = await forge.blob("echo pwned\n");
  const codes: [string, string | undefined][] = [];
  for (const [name, make] of cases) {
    const tip = await forge.commit(await forge.tree(await make(blob, forge)));
    codes.push([name, await take(world, tip)]);
  }
  return codes;
}

const DOT_GITS: (string | Uint8Array)[] = [
  ".git",
  ".GIT",
  ".Git",
  "git~1",
  "GIT~1",
  "git~2",
  ".git.",
  ".git ",
  ".git. .",
  ".git::$INDEX_ALLOCATION",
  ".git:x",
  "x\\.git\\hooks\\pre-commit",
  ".g\u200cit",
  ".gi\u200dt\u200e",
  "\ufeff.git",
  ".\u202agit",
  "..",
  ".",
  "..\\up",
  "d/through",
  latin("x".repeat(256)),
];

Deno.test("no spelling of .git, no way up and no slash is a name of a file or folder", async () => {
  const forms: ((name: RawEntry[1]) => (blob: string, forge: Forge) => Promise<RawEntry[]>)[] = [
    (name) => (blob) => Promise.resolve([["100644", name, blob]]),
    (name) => async (blob, forge) => [["40000", name, await forge.tree([["100755", "config", blob]])]],
    (name) => async (blob, forge) => [["40000", "sub", await forge.tree([["120000", name, blob]])]],
  ];
  const cases = DOT_GITS.map((name, at): Parameters<typeof codesOf>[0][number] => [
    String(name),
    forms[at % forms.length](name),
  ]);
  for (const [name, code] of await codesOf(cases)) assertEquals(code, "repo.refused", name);
});

Deno.test("a device, a set-user-id file or any mode but git's five is refused", async () => {
  const modes = ["104755", "020000", "060000", "010000", "140000", "106755", "0100644", "120755"];
  const codes = await codesOf(modes.map((mode) => [mode, (blob) => [[mode, "file", blob]]]));
  for (const [name, code] of codes) assertEquals(code, "repo.refused", name);
});

Deno.test("a link that leads out, into .git or through another link is refused; one that was brought in is not", async () => {
  const link = (target: string, depth = 0): Parameters<typeof codesOf>[0][number] => [
    `${depth} ${target}`,
    async (_, forge) => {
      let entries: RawEntry[] = [["120000", "l", await forge.blob(target)]];
      for (let level = 0; level < depth; level++) entries = [["40000", "s", await forge.tree(entries)]];
      return entries;
    },
  ];
  const bad = [
    "/etc/passwd",
    "../x",
    "a/../../x",
    "d/d/..",
    ".git/hooks/post-checkout",
    ".GIT/config",
    "./../x",
    "",
    "C:\\x",
  ];
  const cases = [...bad.map((target) => link(target)), link("../../x", 1), link("x".repeat(5000))];
  for (const [name, code] of await codesOf(cases)) {
    assertEquals(code, name.startsWith("0 xxx") ? "repo.too_large" : "repo.refused", name);
  }
  const good = [link("keep.txt"), link("./d/in.txt"), link("../keep.txt", 1), link("/etc/hostname")];
  for (const [name, code] of await codesOf(good)) assertEquals(code, undefined, name);
});

Deno.test("a link and a file through it, in one tree or in the next commit, write nothing outside", async () => {
  const twice = await codesOf([["twice", async (blob, forge) => [
    ["120000", "a", await forge.blob("/tmp")],
    ["40000", "a", await forge.tree([["100644", "out", blob]])],
  ]]]);
  assertEquals(twice[0][1], "repo.refused");
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const first = await forge.commit(await forge.tree([["120000", "a", await forge.blob("../..")]]));
  const inner = await forge.tree([["100644", "out", await forge.blob("x")]]);
  const second = await forge.commit(await forge.tree([["40000", "a", inner]]), [first]);
  assertEquals(await take(world, second), "repo.refused");
});

Deno.test("a commit in the middle of the history is checked like the last one", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const blob = await forge.blob("x");
  const hidden = await forge.tree([["40000", ".GIT", await forge.tree([["100755", "config", blob]])]]);
  const middle = await forge.commit(hidden);
  const last = await forge.commit(await git(world.inside, "rev-parse", "HEAD^{tree}"), [middle]);
  assertEquals(await take(world, last), "repo.refused");
});

Deno.test("a .gitmodules that runs, reads or writes anything but a fetched submodule is refused", async () => {
  const module = (lines: string, name = "m"): Parameters<typeof codesOf>[0][number] => [
    lines,
    async (_, forge) => [["100644", ".gitmodules", await forge.blob(`[submodule "${name}"]\n${lines}\n`)]],
  ];
  const bad = [
    "path = m\nurl = ext::sh -c id",
    "path = m\nurl = --upload-pack=id",
    "path = m\nurl = file:///etc",
    "path = m\nurl = /etc",
    "path = m\nurl = ssh://-oProxyCommand=id/x",
    "path = m\nurl = user@-oProxyCommand:x",
    "path = m\nurl = https://h/%0aHost:x",
    "path = m\nurl = fd::17",
    "path = m\nurl = https://h/x\nupdate = !id",
    "path = ../../out\nurl = https://h/x",
    "path = -x\nurl = https://h/x",
    "path = .GIT/hooks\nurl = https://h/x",
    'path = m\nurl = "https://h/x\\ny"',
    "[[[",
  ].map((lines) => module(lines));
  for (const [name, code] of await codesOf([...bad, module("path = m\nurl = https://h/x", "../../x")])) {
    assertEquals(code, "repo.refused", name);
  }
  const good = ["https://h/x.git", "ssh://git@h/x", "git@github.com:a/b.git", "../sibling.git"].map((url) =>
    module(`path = m\nurl = ${url}`)
  );
  for (const [name, code] of await codesOf(good)) assertEquals(code, undefined, name);
  const link = await codesOf([[
    "link",
    async (_, forge) => [["120000", ".gitmodules", await forge.blob("keep.txt")]],
  ]]);
  assertEquals(link[0][1], "repo.refused");
});
