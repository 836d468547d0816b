/** A repository into a real VM, and the work of its programs back. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { git, listing, sh } from "../helper/repository.ts";
import { Sbx } from "../helper/sbx.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";

async function withSbx(run: (sbx: Sbx, dir: string) => Promise<void>): Promise<void> {
  const sbx = await Sbx.make({ spare: false });
  const dir = await Deno.makeTempDir({ prefix: "sbx-repo-" });
  try {
    await run(sbx, dir);
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a repository goes into a VM and its work comes back as a branch", async () => {
  await withSbx(async (sbx, dir) => {
    const project = join(dir, "project");
    await sh(
      dir,
      `mkdir project; cd project; git init -q -b main; git config user.name P; git config user.email p@example.com
      mkdir -p "s/ü b"; echo 1 >a; ln -s ../a "s/link"; echo x >run; chmod +x run; head -c 12000000 /dev/urandom >"s/ü b/big"
      git add -A; git commit -qm first; echo draft >draft; echo KEY=1 >.env`,
    );
    // Its project file narrows at once, and what it asks for waits, for every client.
    const file = '[env]\nFROM_FILE = "yes"\n[rules.no-paste]\naction = "block"\n' +
      'match = "dns.request.qname == \\"paste.example\\""\n';
    await Deno.writeTextFile(join(project, ".sbx.toml"), file);
    await sh(project, "git add .sbx.toml; git commit -qm 'project file'");
    await sbx.ok("start");
    const folders = [{ dir: project, with_requests: true }];
    const { status, body } = await sbx.api("POST", "/vms/create", { name: "early", folders });
    assertEquals([status, (body as { code: string }).code], [409, "project.unapproved"]);
    const { sha256 } = JSON.parse(await sbx.ok("project", "show", project, "--json"));
    await sbx.ok("project", "approve", project, "--hash", sha256);
    const created = await sbx.cli("create", "demo", "--from-dir", project);
    assertEquals(created.code, 0, created.stderr);
    assertStringIncludes(created.stdout, "/root/project (branch main, with uncommitted changes)");
    assertStringIncludes(created.stderr, "left out .env: looks like a secret");
    const inside =
      "cd /root/project && git fsck --strict && readlink s/link && stat -c %a run && cat draft && sha1sum s/*/big && ls -A";
    const sum = (await sh(project, "sha1sum s/*/big")).trim();
    const seen = await sbx.ok("exec", "demo", "-c", inside);
    for (const word of ["../a", "755", "draft", sum]) assertStringIncludes(seen, word);
    assert(!seen.includes(".env"));
    const look = "echo $FROM_FILE; getent hosts paste.example || echo none";
    assertEquals(await sbx.ok("exec", "demo", "-c", look), "yes\nnone\n");
    assertStringIncludes(await sbx.ok("events", "demo", "--family", "dns", "--jsonl"), "project.no-paste");
    assertEquals(await sbx.ok("exec", "demo", "-c", "ls -A /workspace"), "");
    const before = await listing(project);

    await sbx.ok(
      "exec",
      "demo",
      "-c",
      "cd /root/project && echo 2 >a && git commit -qam fix && rm run && echo new >n",
    );
    const stat = await sbx.ok("diff", "demo", "--stat");
    for (const word of ["fix (P)", " a ", " n ", "deleted", "3 files changed"]) {
      assertStringIncludes(stat, word);
    }
    assertStringIncludes(await sbx.ok("diff", "demo"), "-1\n+2\n");
    assertEquals(JSON.parse(await sbx.ok("diff", "demo", "--json")).units[0].files.length, 3);
    assertEquals((await sbx.cli("review", "demo")).code, 1);
    assertStringIncludes(await sbx.ok("pull", "demo"), "branch sbx/demo: 2 commits");
    assertEquals(
      await git(project, "log", "--format=%s", "sbx/demo"),
      "Uncommitted work\nfix\nproject file\nfirst",
    );
    assertEquals(await listing(project), before);

    await sh(project, "git add draft; git commit -qm second");
    const again = await sbx.cli("push", project, "demo");
    assertEquals([again.code, again.stderr.includes("has work of its own")], [1, true]);
    assertEquals(
      await sbx.ok("exec", "demo", "-c", "git -C /root/project log -1 --format=%s host/main"),
      "second\n",
    );

    await sbx.ok(
      "exec",
      "demo",
      "-c",
      "cd /root/project && echo build >>.git/info/exclude && mkdir build && head -c 3000000 /dev/urandom >build/out && chmod 700 build/out",
    );
    await sbx.ok("cp", "demo:/root/project/build", `${dir}/build`);
    assertEquals((await Deno.stat(`${dir}/build/out`)).mode! & 0o777, 0o700);
    await sbx.ok("cp", `${dir}/build`, "demo:/srv/new/");
    await sbx.ok(
      "exec",
      "demo",
      "-c",
      "cmp /root/project/build/out /srv/new/build/out && rm -r /root/project/build",
    );
    const { events }: { events: DecidedEvent[] } = JSON.parse(
      await sbx.ok("events", "demo", "--family", "file", "--json"),
    );
    const moved = events.filter(({ common, file }) =>
      common.actor === "host" && file?.activity.path.endsWith("build/out")
    );
    const hash = blake3(await Deno.readFile(`${dir}/build/out`));
    assertEquals(
      moved.map(({ common: { actor, labels }, file }) => {
        const { operation, path, byte_count } = file!.activity;
        return [actor, operation, path, byte_count, labels.blake3];
      }),
      [
        ["host", "export", "/root/project/build/out", 3000000, hash],
        ["host", "import", "/srv/new/build/out", 3000000, hash],
      ],
    );

    // Beside it another repository, and a neighbour of which nothing comes back.
    await sh(
      dir,
      `for name in api library; do mkdir $name; cd $name; git init -q -b main; echo 1 >f; git add f; git commit -qm $name; cd ..; done
      cd api; git worktree add -q ../api.fix`,
    );
    assertStringIncludes(
      await sbx.ok("push", join(dir, "api.fix"), "demo"),
      "/root/api.fix (branch api.fix)",
    );
    assertStringIncludes(
      await sbx.ok("push", join(dir, "library"), "demo", "--read-only"),
      "nothing comes back",
    );
    await sbx.ok("exec", "demo", "-c", "cd /root; echo 2 >api.fix/f; echo 2 >library/f");
    const { repositories } = JSON.parse(await sbx.ok("info", "demo", "--json"));
    assertEquals(
      repositories.map(({ name, is_read_only }: Record<string, unknown>) => [name, is_read_only]),
      [["project", false], ["api.fix", false], ["library", true]],
    );
    assertStringIncludes(await sbx.ok("diff", "demo", "--stat"), "api.fix/f");
    await sbx.ok("pull", "demo", "api.fix", "--message", "Fix f", "--branch", "fix");
    assertEquals(await git(join(dir, "api"), "log", "--format=%s", "fix"), "Fix f\napi");
    await sbx.ok("pull", "demo", "api.fix", "--apply");
    assertEquals(await sh(dir, "cat api.fix/f library/f"), "2\n1\n");
    // Back to before the agent's mistake, and forth again.
    await sbx.ok("exec", "demo", "-c", "cd /root; rm -rf api.fix; echo 9 >project/a");
    const { states } = JSON.parse(await sbx.ok("undo", "demo", "--list", "--json"));
    assertEquals(states[0].reason, "before sbx pull");
    assertStringIncludes(await sbx.ok("undo", "demo", "--yes"), `back at state ${states[0].number}`);
    assertEquals(await sbx.ok("exec", "demo", "-c", "cd /root; cat api.fix/f project/a"), "2\n2\n");
    await sbx.ok("undo", "demo", "--yes");
    assertEquals(await sbx.ok("exec", "demo", "-c", "cd /root; cat project/a"), "9\n");
    await sbx.ok("undo", "demo", "--to", String(states[0].number), "--yes");

    await sbx.ok("exec", "demo", "-c", "cd /root/project && echo 5 >late && sync");
    const refused = await sbx.cli("delete", "demo", "--json");
    assertEquals([refused.code, JSON.parse(refused.stderr).code], [1, "vm.unlanded"]);
    assertStringIncludes(refused.stderr, "1 changed file");

    // A copy of the VM has the repository too, and goes on without its source.
    await sbx.ok("stop", "demo");
    await sbx.ok("fork", "demo", "other");
    assertStringIncludes((await sbx.cli("delete", "demo")).stderr, "it is Stopped");
    await sbx.ok("delete", "--force", "demo");
    assertStringIncludes(await sbx.ok("list", "--deleted"), "demo");
    await sbx.ok("restore", "demo", "back");
    assertEquals(await sbx.ok("list", "--deleted"), "no deleted VMs that can be restored\n");
    await sbx.ok("start", "back");
    assertEquals(await sbx.ok("exec", "back", "-c", "cat /root/project/late"), "5\n");
    await sbx.ok("delete", "--force", "back");
    await sbx.ok("exec", "other", "-c", "rm /root/project/late");
    await sbx.ok("exec", "other", "-c", "cd /root/project && echo 3 >a && git commit -qam forked");
    assertStringIncludes(await sbx.ok("diff", "other", "--stat"), "forked (P)");
    assertStringIncludes(await sbx.ok("pull", "other"), "branch sbx/other");
    assertEquals(await git(project, "show", "sbx/other:a"), "3");
  });
});

Deno.test("sbx run --from-dir --pull runs in a folder and takes its changes", async () => {
  await withSbx(async (sbx, dir) => {
    await sh(
      dir,
      "mkdir plain; cd plain; mkdir d; echo 1 >d/a; ln -s d/a l; touch -d 2001-02-03 d/a; chmod 600 d/a",
    );
    const project = join(dir, "plain");
    const ran = await sbx.cli(
      "run",
      "--from-dir",
      project,
      "--pull",
      "--",
      "sh",
      "-c",
      "pwd; readlink l; stat -c %Y d/a; echo 2 >d/b; rm l; exit 3",
    );
    assertEquals([ran.code, ran.stdout], [3, "/root/plain\nd/a\n981158400\n"], ran.stderr);
    assertEquals(await sh(project, "find . -type f | sort; stat -c %a d/a"), "./d/a\n./d/b\n600\n");
    assertEquals(
      JSON.parse(await sbx.ok("list", "--json")).vms ?? JSON.parse(await sbx.ok("list", "--json")),
      [],
    );
  });
});
