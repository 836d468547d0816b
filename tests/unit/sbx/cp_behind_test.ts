import { assertEquals } from "@std/assert";
import { findBehind } from "../../../cmd/sbx/files/cp_download.ts";
import type { FileEntry } from "../../../lib/client/api/mod.ts";

/** Entries of paths: a slash at the end is a folder, an @ a link. */
function entries(...paths: string[]): FileEntry[] {
  return paths.map((path) => ({
    path: path.replace(/[/@]$/, ""),
    type: path.endsWith("/") ? "directory" : path.endsWith("@") ? "symlink" : "file",
    size: 0,
    mode: "0644",
    modified_unix_ms: 0,
  }));
}

Deno.test("configuration, hooks and ways to other repositories stay behind, in any spelling of .git", () => {
  const bad = [
    ...[
      "r/.git/config",
      "r/.git/hooks/",
      "r/.git/hooks/post-checkout",
      "r/.git/config.worktree",
      "r/.git/commondir",
    ],
    ...["r/.GIT/Config", "r/git~1/config", "r/.git./config", "s/.git", "t/.git@", "r/.git/info/attributes"],
    ...["r/.git/objects/info/alternates", "r/.git/worktrees/w/config.worktree", "r/.git/worktrees/w/gitdir"],
    ...["r/.g\u200cit/config"],
  ];
  assertEquals(findBehind(entries(...bad)), new Set(bad.map((path) => path.replace(/[/@]$/, ""))));
});

Deno.test("a bare repository under another name, a submodule's and a folder with a common one lose theirs too", () => {
  const bare = entries("x/HEAD", "x/objects/", "x/refs@", "x/config", "x/hooks@", "x/description");
  assertEquals(findBehind(bare), new Set(["x/config", "x/hooks"]));
  const top = entries("HEAD", "objects/", "refs/", "config");
  assertEquals(findBehind(top), new Set(["config"]));
  const module = ["HEAD", "objects/", "refs/", "config", "hooks/"].map((name) =>
    `r/.git/modules/a/b/${name}`
  );
  assertEquals(
    findBehind(entries(...module)),
    new Set(["r/.git/modules/a/b/config", "r/.git/modules/a/b/hooks"]),
  );
  const common = entries("w/HEAD", "w/commondir", "w/config");
  assertEquals(findBehind(common), new Set(["w/commondir", "w/config"]));
});

Deno.test("a bare repository of which a guest lists no folder loses its configuration too", () => {
  for (const root of ["", "/root/x/"]) {
    const listed = ["HEAD", "objects/aa", "refs/heads/main", "config", "hooks/post-checkout"];
    assertEquals(
      findBehind(entries(...listed.map((path) => root + path))),
      new Set([`${root}config`, `${root}hooks/post-checkout`]),
    );
  }
});

Deno.test("other files come along", () => {
  const good = [
    "config",
    "hooks/",
    "src/config",
    "r/.git/",
    "r/.git/HEAD",
    "r/.git/refs/heads/config",
    "r/.gitignore",
  ];
  assertEquals(findBehind(entries(...good, "r/.git/refs/heads/hooks/x", "r/.git/logs/HEAD")), new Set());
});

Deno.test("deep folders are looked at once each, whatever their number of files", () => {
  const deep = Array.from({ length: 400 }, (_, at) => `d${at}`).join("/");
  const files = Array.from({ length: 2000 }, (_, at) => `${deep}/f${at}`);
  assertEquals(
    findBehind(entries(...files, `${deep}/.git/config`, `${deep}/.git/x`)),
    new Set([`${deep}/.git/config`]),
  );
});
