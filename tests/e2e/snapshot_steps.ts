/** Snapshots of a VM that runs: undone from the host, seen by the guest. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Sbx } from "../helper/sbx.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";
import type { Parsed } from "../helper/json.ts";

/** Steps for a running VM `dev`, whose workspace they leave as it was. */
export async function snapshotSteps(t: Deno.TestContext, sbx: Sbx): Promise<void> {
  const sh = async (command: string): Promise<string> => {
    const { body } = await sbx.api("POST", "/vms/dev/exec", { command, cwd: "/workspace" });
    return body.stdout + body.stderr;
  };
  const undo = async (...args: string[]) =>
    JSON.parse(await sbx.ok("undo", "dev", ...args, "--yes", "--json"));

  await t.step("rm -rf in the guest is undone, and the guest sees it at once", async () => {
    await sh(
      "mkdir -p site/css; echo page >site/index; echo red >site/css/a; ln -s index site/link; echo one >edited",
    );
    const made = JSON.parse(await sbx.ok("snapshots", "create", "dev", "before", "--json"));
    // Read, so that the guest's kernel has names and pages to be wrong about; of the same size afterwards.
    assertEquals(
      await sh("cat site/index edited; rm -rf site; echo two >edited; cat edited"),
      "page\none\ntwo\n",
    );
    const preview = JSON.parse(await sbx.ok("undo", "dev", "--to", made.id, "--json"));
    assertEquals(preview.changes.map(({ change, path }: Parsed) => `${change} ${path}`), [
      "modified edited",
      ...["site", "site/css", "site/css/a", "site/index", "site/link"].map((path) => `created ${path}`),
    ]);
    const { before, failed } = await undo("--to", made.id);
    assertEquals(failed, []);
    assertEquals(await sh("cat edited site/index site/css/a site/link"), "one\npage\nred\npage\n");
    await undo("--to", before.id);
    assertEquals(
      await sh("cat edited; ls -d site"),
      "two\nls: cannot access 'site': No such file or directory\n",
    );
  });

  await t.step(
    "the guest's own program makes, compares and restores snapshots of its workspace alone",
    async () => {
      await sh("mkdir -p kept; echo 1 >kept/a; echo 2 >other");
      const { id } = JSON.parse(await sh("snapshots create 'by the agent' --json"));
      await sh("rm -rf kept; echo 3 >other");
      assertEquals(await sh(`snapshots diff ${id}`), "- kept/\n- kept/a\nM other\n");
      assertStringIncludes(await sh(`snapshots restore ${id} kept`), "put back 2 of 2 changes");
      assertEquals(await sh("cat kept/a other"), "1\n3\n");
      assertStringIncludes(await sh("snapshots list"), "guest manual  ");
      assertEquals(
        await sh("snapshots restore s00000000 2>&1; echo $?"),
        "snapshots: " +
          'no snapshot "s00000000"\nask your user\n1\n',
      );
      assertStringIncludes(await sh(`snapshots restore ${id} ../../etc/passwd`), "is not below /workspace");
      assertStringIncludes(await sbx.ok("snapshots", "list", "dev"), "by the agent");
      await sh("rm -r kept other");
    },
  );

  await t.step("undo to before an event; both directions are events", async () => {
    await sh("echo kept >file");
    const { id } = JSON.parse(await sbx.ok("snapshots", "create", "dev", "--json"));
    await sh("echo lost >file");
    const { events }: { events: DecidedEvent[] } = JSON.parse(
      await sbx.ok("events", "dev", "--family", "process", "--json"),
    );
    const { event_id } = events.findLast(({ process }) =>
      process?.activity.command.includes("echo lost >file")
    )!.common;
    const undone = await undo("--to", event_id);
    assertEquals([undone.snapshot.id, await sh("cat file")], [id, "kept\n"]);
    const lines = await sbx.ok("timeline", "dev");
    assertStringIncludes(lines, "file.activity  import /workspace");
    assertStringIncludes(lines, "file.activity  export /workspace");
    await sh("rm -r file edited");
    assertStringIncludes(await sbx.ok("snapshots", "list", "dev"), "before a restore");
    await sbx.ok("snapshots", "delete", "dev", id);
  });
}
