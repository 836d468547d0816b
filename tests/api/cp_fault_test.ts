/** `sbx cp` out of a VM while files go and connections break off. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { download } from "../../cmd/sbx/files/cp_download.ts";
import { Remote } from "../../cmd/sbx/files/cp_remote.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { Client } from "../../lib/client/mod.ts";

/** Runs a copy against an API with these routes. */
async function withApi(app: Hono, run: (remote: Remote, dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const options = { port: 0, hostname: "127.0.0.1", onListen() {}, onError: () => new Response() };
  const server = Deno.serve(options, app.fetch);
  try {
    await run(
      new Remote(
        new Client(`http://127.0.0.1:${server.addr.port}`, undefined, Deno.createHttpClient({})),
        "demo",
      ),
      dir,
    );
  } finally {
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a file that is gone, or has become a link, is skipped and named, and the others are copied", () => {
  const app = new Hono();
  const paths = ["a", "gone", "link", "z"];
  const entries = paths.map((path) => ({ path, type: "file", size: 1, mode: "0644", modified_unix_ms: 0 }));
  app.get(
    "/vms/demo/files/list",
    (context) => context.json({ entries, truncated: false, left_out: [], left_out_count: 0 }),
  );
  app.get("/vms/demo/files/content", (context) => {
    const path = context.req.query("path")!;
    if (path === "gone") return context.json({ error: "it is gone", code: "file.not_found" }, 404);
    if (path === "link") {
      return context.json({ error: "it leads out", code: "path.outside_workspace" }, 400);
    }
    return context.body(path);
  });
  return withApi(app, async (remote, dir) => {
    const { copied, skipped } = await download(remote, "", join(dir, "out"));
    assertEquals([copied.map(({ from }) => from), skipped], [["a", "z"], ["gone", "link"]]);
    assertEquals(await Deno.readTextFile(join(dir, "out/z")), "z");
  });
});

Deno.test("a connection that is lost during a copy is an error that says so, and leaves no file", () => {
  const app = new Hono();
  app.get("/vms/demo/files/list", (context) => context.json({ error: "a file", code: "file.invalid" }, 400));
  app.get("/vms/demo/files/content", () => {
    const body = new ReadableStream({
      start: (stream) => stream.enqueue(new Uint8Array(1000)),
      pull: (stream) => stream.error(new Error("killed")),
    });
    return new Response(body);
  });
  return withApi(app, async (remote, dir) => {
    const error = await assertRejects(() => download(remote, "big", join(dir, "big")), SbxError);
    assertEquals(error.code, "service.unreachable");
    assertStringIncludes(error.message, `"big"`);
    assertEquals(await Array.fromAsync(Deno.readDir(dir)), []);
  });
});
