/** A profile minimised from a session that began with files of a person: trials begin with the same. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { makeUpstreams, RULES } from "./net_world.ts";
import { sh as onHost } from "../helper/repository.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import type { Parsed } from "../helper/json.ts";

Deno.test("sbx learn --minimise of a session that began with --from-dir and cp", async (t) => {
  const folder = await Deno.makeTempDir();
  const world = await makeUpstreams(folder);
  const sbx = await Sbx.make({ spare: false });
  const names = async (): Promise<string[]> =>
    JSON.parse(await sbx.ok("list", "--json")).vms.map(({ name }: Parsed) => name);
  try {
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });
    await sbx.ok("profile", "copy", "code", "net");
    await Deno.writeTextFile(join(sbx.home, "profiles/net/profile.toml"), RULES, { append: true });
    const project = join(folder, "project");
    await Deno.mkdir(project);
    await onHost(
      project,
      "git init -q; echo committed >data; git add data; git commit -qm one; echo more >>data",
    );
    await Deno.mkdir(join(folder, "settings"));
    await Deno.writeTextFile(join(folder, "settings/url"), "https://site.example/needed");
    await onHost(join(folder, "settings"), "ln -s url link");
    const test =
      `grep -q more data && git log --oneline | grep -q one && curl -sSf -o /dev/null "$(cat /srv/settings/link)"`;

    await t.step("its files are brought into each trial, and what it does not need is left out", async () => {
      await sbx.ok("create", "began", "--profile", "net", "--from-dir", project);
      await sbx.ok("cp", join(folder, "settings"), "began:/srv/settings");
      await sbx.ok("exec", "began", "--cwd", "/root/project", "-c", test);
      await sbx.ok("exec", "began", "-c", "curl -sS -o /dev/null https://site.example/telemetry; true");
      await sbx.ok("diff", "began", "--stat");
      // Everything, everything but one half, and everything but a half of that or of the other.
      const made = await sbx.ok("learn", "began", "--minimise", "--runs", "3", "--save", "least", "--json");
      const { rules, minimised } = JSON.parse(made);
      assertEquals([minimised.commands, minimised.runs, minimised.complete], [2, 3, false]);
      assert(rules.some(({ match }: Parsed) => match.includes("common.labels.repository")), made);
      assertEquals(await names(), ["began"]);
      assertEquals((await sbx.ok("profile", "list")).includes("learn-"), false);
    });

    await t.step("the saved profile lets another folder in, and blocks without a question", async () => {
      await sbx.ok("create", "after", "--profile", "least", "--from-dir", project);
      await sbx.ok("cp", join(folder, "settings"), "after:/srv/settings");
      await sbx.ok("exec", "after", "--cwd", "/root/project", "-c", test);
      const { code, stderr } = await sbx.cli("exec", "after", "--", "uptime");
      assertEquals(code, 126, stderr);
      assertStringIncludes(stderr, "everything-else");
      assertEquals(JSON.parse(await sbx.ok("asks", "--json")).asks, []);
      await sbx.ok("diff", "after", "--stat");
      await sbx.ok("delete", "--force", "after");
    });

    await t.step("a search that is killed leaves neither VM nor profile", async () => {
      const search = sbx.follow("learn", "began", "--minimise");
      await eventually("a trial runs", async () => (await names()).some((name) => name.startsWith("learn-")));
      await search.kill();
      await eventually("its VM is gone", async () => (await names()).join() === "began");
      await eventually(
        "so is its profile",
        async () => !(await sbx.ok("profile", "list")).includes("learn-"),
      );
      const { body } = await sbx.api("GET", "/vms/deleted");
      assertEquals(body.vms.map(({ name }: Parsed) => name), ["after"]);
    });

    await t.step("a file that sbx has no copy of is named before any trial", async () => {
      const { session_id } = JSON.parse(await sbx.ok("info", "began", "--json"));
      await Deno.remove(join(sbx.home, "sessions", session_id, "brought"), { recursive: true });
      const { code, stderr } = await sbx.cli("learn", "began", "--minimise");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "sbx has no copy of");
    });
  } finally {
    await sbx.dispose();
    await world.close();
    await Deno.remove(folder, { recursive: true });
  }
});
