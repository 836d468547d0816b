import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { fetchSmall } from "../../../lib/base/download/mod.ts";
import { serveTree } from "../../../lib/publish/mod.ts";
import { checkChannel, parseIndexUrl, ReleaseMemory } from "../../../lib/release/mod.ts";
import { ReleaseWorkspace } from "../../helper/release_workspace.ts";

async function served(
  run: (get: (path: string, init?: RequestInit) => Promise<[number, string, Headers]>) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  await Deno.mkdir(join(dir, "assets"));
  await Deno.writeTextFile(join(dir, "channels.json"), "{}");
  await Deno.writeTextFile(join(dir, "assets", "a.bin"), "0123456789");
  await Deno.writeTextFile(join(dir, ".hidden"), "secret");
  await Deno.writeTextFile(join(dir, "empty"), "");
  await Deno.symlink("/etc/passwd", join(dir, "link"));
  const server = await serveTree(dir, 0);
  try {
    await run(async (path, init) => {
      const response = await fetch(new URL(path, server.url), init);
      return [response.status, await response.text(), response.headers];
    });
  } finally {
    await server.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const RANGES: [range: string, status: number, body: string, content: string | null][] = [
  ["bytes=0-", 206, "0123456789", "bytes 0-9/10"],
  ["bytes=4-6", 206, "456", "bytes 4-6/10"],
  ["bytes=4-", 206, "456789", "bytes 4-9/10"],
  ["bytes=8-99", 206, "89", "bytes 8-9/10"],
  ["bytes=-3", 206, "789", "bytes 7-9/10"],
  ["bytes=-99", 206, "0123456789", "bytes 0-9/10"],
  ["bytes=10-", 416, "", "bytes */10"],
  ["bytes=-0", 416, "", "bytes */10"],
  ["bytes=5-2", 200, "0123456789", null],
  ["bytes=0-1,3-4", 200, "0123456789", null],
  ["lines=1-2", 200, "0123456789", null],
];

Deno.test("a published tree is served whole and in ranges", () =>
  served(async (get) => {
    for (const [range, status, body, content] of RANGES) {
      const [actual, text, headers] = await get("assets/a.bin", { headers: { range } });
      assertEquals([actual, text, headers.get("content-range")], [status, body, content], range);
    }
    assertEquals((await get("empty")).slice(0, 2), [200, ""]);
    assertEquals((await get("empty", { headers: { range: "bytes=0-" } }))[0], 416);
    const [status, body, headers] = await get("assets/a.bin", { method: "HEAD" });
    assertEquals([status, body, headers.get("content-length")], [200, "", "10"]);
  }));

Deno.test("nothing else is served: folders, hidden files, links, other folders, other methods", () =>
  served(async (get) => {
    for (
      const path of [
        "assets",
        "assets/",
        ".hidden",
        "link",
        "none",
        "assets%2fa.bin",
        "assets//a.bin",
        "..%2f..%2fetc/passwd",
      ]
    ) {
      assertEquals((await get(path))[0], 404, path);
    }
    assertEquals((await get("assets/a.bin", { method: "PUT", body: "x" }))[0], 405);
  }));

Deno.test("a workspace is not served, since it has the keys; nor is a folder without an index", async () => {
  const dir = await Deno.makeTempDir();
  await assertRejects(() => serveTree(dir, 0), SbxError, "has no channels.json");
  await Deno.writeTextFile(join(dir, "channels.json"), "{}");
  await Deno.mkdir(join(dir, "keys"));
  await assertRejects(() => serveTree(dir, 0), SbxError, "is a workspace, with the keys that sign releases");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a host checks a channel of a served tree", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  await publisher.publish();
  const server = await serveTree(publisher.out, 0);
  try {
    const { record, manifest } = await checkChannel({
      index: parseIndexUrl(server.url),
      channel: "stable",
      keys: await publisher.keys(),
      memory: new ReleaseMemory({ dir: publisher.root }),
      fetch: async (url, max) => (await fetchSmall(url, max))!,
      now: publisher.now,
    });
    assertEquals([record.version, manifest.profiles.length], ["1.0.0", 1]);
  } finally {
    await server.close();
  }
});
