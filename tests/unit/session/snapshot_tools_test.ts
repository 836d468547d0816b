/**
 * Snapshots as a guest may use them: its own workspace, in number and rate, without pushing out the host's.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { snapshotTools } from "../../../lib/session/snapshot_tools.ts";
import { type SnapshotWorld, withSnapshots } from "../../helper/snapshot.ts";
import type { Parsed } from "../../helper/json.ts";

const options = { signal: new AbortController().signal };

function toolsOf({ store, limits }: SnapshotWorld) {
  const events: string[] = [];
  const tools = snapshotTools({
    store,
    limits: () => limits,
    observe: ({ operation, labels }) => events.push(`${operation} ${labels.snapshot}`),
  });
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const tool = tools.find(({ entry }) => entry.namespaced_name === `local__snapshot_${name}`)!;
    const { structuredContent } = await tool.run(args, options) as { structuredContent: Parsed };
    return structuredContent;
  };
  const code = async (name: string, args?: Record<string, unknown>) =>
    (await assertRejects(() => call(name, args), SbxError)).code;
  return { call, code, events };
}

Deno.test("a guest makes and restores snapshots, each an event, and pushes out none of the host's", () =>
  withSnapshots(async (world) => {
    const { put, sh, store, limits } = world;
    const { call, code, events } = toolsOf(world);
    await put("a", "host");
    const hosts = (await store.create({ kind: "auto", limits }))!.id;
    await put("a", "guest");
    const { id, actor } = await call("create", { label: "mine" });
    assertEquals([actor, await code("create")], ["guest", "snapshot.limit"]);
    for (const text of ["1", "2", "3"]) {
      await put("a", text);
      await call("restore", { snapshot: id, paths: ["/workspace/a"] });
    }
    assertEquals(await sh("cat a"), "guest");
    assertEquals(events, [`export ${id}`, ...Array(3).fill(`import ${id}`)]);
    const { snapshots } = await call("list");
    assertEquals(snapshots.map(({ actor, kind }: Parsed) => `${actor} ${kind}`), [
      "host auto",
      "guest manual",
      "guest auto",
    ]);
    assertEquals(snapshots[0].id, hosts);
    assertEquals((await call("diff", { from: hosts })).changes_count, 1);
  }, { limits: { auto: 1, manual: 1 } }));

Deno.test("wrong arguments and too many calls are refused", () =>
  withSnapshots(async (world) => {
    const { call, code } = toolsOf(world);
    for (const path of ["../x", "/etc/passwd", "/workspace/../x", 1]) {
      assertEquals(await code("restore", { snapshot: "s00000000", paths: [path] }), "mcp.arguments.invalid");
    }
    assertEquals(await code("diff"), "mcp.arguments.invalid");
    assertEquals(await code("create", { label: "a\x1b" }), "mcp.arguments.invalid");
    assertEquals(await code("diff", { from: "../../etc/x" }), "snapshot.not_found");
    // At most those of two minutes of the clock.
    const codes = new Set<string>();
    for (let i = 0; i < 21; i++) codes.add(await code("restore", { snapshot: "s00000000" }));
    assertEquals([...codes], ["snapshot.not_found", "snapshot.rate"]);
    await call("list");
  }));
