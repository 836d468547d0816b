import { assert, assertEquals } from "@std/assert";
import { formatNotable } from "../../../cmd/sbx/files/diff_text.ts";
import type { FileChange } from "../../../lib/repo/mod.ts";
import { NOTABLE, notableBy } from "../../../lib/repo/notable.ts";
import { latin1 } from "../../../lib/repo/text.ts";
import { fromRoot } from "../../helper/repo.ts";

const FILES: Record<string, string[]> = {
  agents: ["GEMINI.md", "sub/.gemini/settings.json", ".codex/config.toml", "opencode.json", ".opencode/x/y"]
    .concat([".cursor/mcp.json", ".cursorrules", ".windsurfrules", ".aider.conf.yml", ".clinerules"])
    .concat(["a/b/claude.MD", ".github/copilot-instructions.md", ".mcp.json", ".claude", "CLAUDE.local.md"]),
  editors: [
    "x/.zed/tasks.json",
    ".helix/languages.toml",
    "a.code-workspace",
    ".nvim.lua",
    ".VSCODE/tasks.json",
  ]
    .concat([".exrc", ".vimrc", ".dir-locals.el", ".idea"]),
  git: [".lfsconfig", "deep/down/.gitattributes", ".gitmodules", ".husky/pre-commit", "lefthook.yml"],
  "shells, debuggers and interpreters": [".envrc", "x/.gdbinit"],
  Python: ["setup.py", "setup.cfg", "tests/conftest.py", "sitecustomize.py", "lib/evil.pth"],
  "package managers": ["package.json", "packages/a/package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs"]
    .concat(["Gemfile", "x.gemspec"]),
  "build tools and linters": [
    "Makefile",
    "gnumakefile",
    "justfile",
    "Taskfile.yml",
    "CMakeLists.txt",
    "build.rs",
  ]
    .concat([".cargo/config.toml", "build.gradle.kts", "gradlew", "gradle/wrapper/gradle-wrapper.jar"])
    .concat(["pom.xml", ".mvn/jvm.config", "mvnw", "Rakefile", "meson.build"]),
  "containers and VMs": [
    ".sbx.toml",
    "Dockerfile",
    "docker-compose.prod.yml",
    ".devcontainer/devcontainer.json",
  ],
  CI: [".github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile"],
};

Deno.test("files that programs act on are known in any folder and any case, by those programs", () => {
  for (const [by, paths] of Object.entries(FILES)) {
    for (const path of paths) assertEquals(notableBy(path), by, path);
  }
  assertEquals(Object.keys(FILES), NOTABLE.map(({ by }) => by));
  for (const path of ["Ma\u212aefile", ".g\u200citattributes", ".claude. /x", ".v\u017fcode"]) {
    assert(notableBy(latin1(new TextEncoder().encode(path))) !== undefined, path);
  }
  for (
    const path of [
      "src/main.ts",
      "README.md",
      "my-package.json",
      "docs/claude.mdx",
      "vscode/x",
      "make/file",
      ".cursor-old/x",
    ]
  ) {
    assertEquals(notableBy(path), undefined, path);
  }
});

Deno.test("a screen names few of many such files, by the programs that act on them", () => {
  const files = ["AGENTS.md", ...["a", "b", "c", "d"].map((name) => `${name}/package.json`), "src/main.ts"]
    .map(
      (path): FileChange => ({ path, status: "added", old_id: "", new_id: "", notable_by: notableBy(path) }),
    );
  const unit = {
    repository: "a",
    label: "sub",
    path: "sub",
    base: "",
    tip: "",
    commits: [],
    notable: [],
    files,
  };
  assertEquals(formatNotable([unit]), [
    "sbx: programs of this host run or obey these files; look at them before you go on:",
    "  agents: sub/AGENTS.md",
    "  package managers: sub/a/package.json, sub/b/package.json, sub/c/package.json and 1 more",
  ]);
  assertEquals(formatNotable([{ ...unit, files: files.slice(-1) }]), []);
});

Deno.test("repositories.md has the list of files that programs act on", async () => {
  const page = await Deno.readTextFile(fromRoot("docs/guides/repositories.md"));
  const section = /^## Files that programs act on\n(.*?)^## /ms.exec(page)?.[1] ?? "";
  const listed = Array.from(
    section.matchAll(/^- \*\*(.+?)\*\*:(.*?)(?=^- |$(?![^]))/gms),
    ([, by, rest]) => ({
      by,
      patterns: Array.from(rest.matchAll(/`([^`]+)`/g), ([, pattern]) => pattern),
    }),
  );
  assert(listed.length > 0);
  assertEquals(listed, [...NOTABLE]);
});
