/** Which command lines are of git, and what the server gets of them. */
import { assertEquals } from "@std/assert";
import { gitCommandOf } from "../../../../lib/network/ssh/command.ts";

Deno.test("command lines of git are read in one form, and sent in one", () => {
  const upload = (path: string, line: string, rawPath?: string) => ({
    service: "git-upload-pack" as const,
    line: `git-upload-pack '${line}'`,
    path,
    ...(rawPath !== undefined && { rawPath }),
  });
  assertEquals(gitCommandOf("git-upload-pack '/a/b.git'"), upload("/a/b.git", "/a/b.git"));
  assertEquals(gitCommandOf("git-upload-pack 'a/b.git'"), upload("/a/b.git", "a/b.git", "a/b.git"));
  assertEquals(gitCommandOf("git upload-pack 'a/b.git/'"), upload("/a/b.git", "a/b.git", "a/b.git/"));
  assertEquals(gitCommandOf("git-upload-pack ~me/b"), upload("/~me/b", "~me/b", "~me/b"));
  assertEquals(
    gitCommandOf("git-upload-pack '/a b?c%2e'"),
    upload("/a%20b%3Fc%252e", "/a b?c%2e", "/a b?c%2e"),
  );
  assertEquals(gitCommandOf("git-upload-pack '/a+b@c:d'"), upload("/a+b@c:d", "/a+b@c:d"));
});

Deno.test("anything else is another command", () => {
  for (
    const command of [
      "git-upload-pack 'x'; id",
      "git-upload-pack 'x' ; id",
      "git-upload-pack 'x'\nid",
      "git-upload-pack 'x\nid'",
      "git-upload-pack '$(id)'x",
      "git-upload-pack $(id)",
      "git-upload-pack `id`",
      "git-upload-pack 'a'\\''b'",
      "git-upload-pack 'a\\b'",
      "git-upload-pack 'a' 'b'",
      "git-upload-pack --strict 'a'",
      "git-upload-pack -x",
      "git-upload-pack",
      "git-upload-pack ''",
      'git-upload-pack "a"',
      "git-upload-pack  'a'",
      " git-upload-pack 'a'",
      "GIT_DIR=x git-upload-pack 'a'",
      "git-upload-archive 'a'",
      "git-shell -c \"git-upload-pack 'a'\"",
    ]
  ) assertEquals(gitCommandOf(command), undefined, command);
});

Deno.test("a path that servers read in different ways is refused", () => {
  for (const path of ["--upload-pack=id", "/a//b", "a/../b", "/./a", "..", "/a/b//", "/", "//a"]) {
    const read = gitCommandOf(`git-receive-pack '${path}'`);
    assertEquals(read !== undefined && "fault" in read, true, path);
  }
});
