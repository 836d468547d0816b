import { assertEquals } from "@std/assert";
import { latin1 } from "../../../lib/repo/text.ts";
import { nameProblem, secretPattern, targetProblem } from "../../../lib/repo/name/mod.ts";

const bytes = (text: string) => latin1(new TextEncoder().encode(text));

Deno.test("every spelling of .git is refused, whatever git itself would say", () => {
  const names = [
    ".git",
    ".GIT",
    "git~1",
    "GIT~12",
    ".git.",
    ".git . ",
    ".git:x",
    "a:.git",
    "x\\.git",
    "x\\..\\y",
  ]
    .concat([".g\u200cit", "\u200e.git", ".git\ufeff", ".\u202agit", ".ｇit", "", ".", "..", "a/b", "a\0b"]);
  for (const name of names) assertEquals(typeof nameProblem(bytes(name)), "string", JSON.stringify(name));
  assertEquals(typeof nameProblem("x".repeat(256)), "string");
});

Deno.test("other names pass", () => {
  const names = [
    ".gitignore",
    ".github",
    "git",
    "git~",
    "git~x",
    "..a",
    "a..b",
    "ü ñ",
    "a\nb",
    "-rf",
    "x".repeat(255),
    "\xff\xfe",
  ];
  for (const name of names) assertEquals(nameProblem(bytes(name)), undefined, JSON.stringify(name));
});

Deno.test("a link may go up only through real folders, and not above its repository", () => {
  const bad: [string, number][] = [["/x", 3], ["../x", 0], ["../../x", 1], ["a/../b", 3], ["..", 0], [
    "a/..",
    9,
  ], ["\\x", 0]]
    .concat([["C:/x", 0], [".git/x", 0], ["a/.GIT", 0], ["", 0], ["../git~1/x", 1], ["..\\..\\x", 1]]) as [
      string,
      number,
    ][];
  for (const [target, depth] of bad) assertEquals(typeof targetProblem(target, depth), "string", target);
  const good: [string, number][] = [["x", 0], ["../x", 1], ["./a/b", 0], ["../../x/y", 2], ["..", 1], [
    "a..b/c",
    0,
  ]];
  for (const [target, depth] of good) assertEquals(targetProblem(target, depth), undefined, target);
});

Deno.test("files look like secrets by the last parts of their path, in any case, and below folders of secrets", () => {
  const secrets = [
    ".config/gh/hosts.yml",
    "home/.Config/GH/hosts.yml",
    "dotfiles/.config/gcloud/legacy_credentials/a@example.com/adc.json",
    ".cargo/credentials.toml",
    ".local/share/keyrings/login.keyring",
    "sub/.ENV",
    "ID_RSA",
  ];
  for (const path of secrets) assertEquals(secretPattern(path), true, path);
  for (
    const path of ["config/gh/hosts.yml", ".config/ghost", "gh/hosts.yml", ".cargo/config.toml", ".config"]
  ) {
    assertEquals(secretPattern(path), false, path);
  }
});
