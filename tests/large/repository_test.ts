/**
 * A repository with a pack of 300 MB (`MB`) through a real VM and back:
 * `make test-large`. Not part of `make test`.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { git, sh } from "../helper/repository.ts";
import { Sbx } from "../helper/sbx.ts";

/** Making the repository on a busy machine, in `ms`. */
const MAKE_LIMIT_MS = 900_000;
const MB = Number(Deno.env.get("MB") ?? 300);

Deno.test(`a pack of ${MB} MB, submodules, links, modes, odd names and deletions come back as they are`, async () => {
  const sbx = await Sbx.make();
  const dir = await Deno.makeTempDir({ prefix: "sbx-large-" });
  const project = join(dir, "project");
  try {
    await sh(
      dir,
      `git init -q -b main lib; (cd lib; echo lib >l; git add l; git commit -qm lib)
      git init -q -b main project; cd project
      for i in $(seq ${MB / 10}); do head -c 10000000 /dev/urandom >"big $i"; done
      mkdir -p "ü/ñ"; echo x >"ü/ñ/日本"; printf x >"$(printf 'caf\\351')"; printf x >"$(printf 'new\\nline')"; ln -s ü/ñ link; echo x >run; chmod +x run; echo x >gone
      git -c protocol.file.allow=always submodule --quiet add ../lib vendor/lib
      git add -A; git commit -qm first; git gc -q`,
      MAKE_LIMIT_MS,
    );
    const created = await sbx.cli("create", "demo", "--from-dir", project);
    assertEquals(created.code, 0, created.stderr);
    const tree = "git rev-parse HEAD^{tree} HEAD:vendor/lib; git status --porcelain";
    assertEquals(await sbx.ok("exec", "demo", "-c", `cd /root/project; ${tree}`), await sh(project, tree));
    const work =
      "git rm -q gone 'big 1'; cp 'big 2' copy; head -c 5000000 /dev/urandom >new; chmod -x run; git add -A; git commit -qm work";
    await sbx.ok(
      "exec",
      "demo",
      "-c",
      `cd /root/project; ${work}; cd vendor/lib; echo 2 >l; git commit -qam two`,
    );
    const inside = await sbx.ok(
      "exec",
      "demo",
      "-c",
      "cd /root/project; git add -A; git write-tree; git reset -q; git -C vendor/lib rev-parse HEAD",
    );
    await sbx.ok("pull", "demo");
    const [outer, inner] = inside.trim().split("\n");
    assertEquals(await git(project, "rev-parse", "sbx/demo^{tree}"), outer);
    assertEquals(await git(join(project, "vendor/lib"), "rev-parse", "sbx/demo"), inner);
    assert((await sh(project, "git fsck --full --strict 2>&1; git status --porcelain")).trim() === "");
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
