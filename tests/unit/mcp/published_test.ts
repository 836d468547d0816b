/**
 * Published MCP servers behind the aggregator, run under this Deno: `everything` over both of its
 * HTTP transports, and `memory` and `filesystem`, which support stdio only, behind a bridge that
 * forwards their messages unchanged.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Progress } from "../../../lib/mcp/mod.ts";
import { withAggregator } from "../../helper/mcp_driver.ts";
import { definition } from "../../helper/mcp_server.ts";
import { fromRoot } from "../../helper/repo.ts";
import { eventually } from "../../helper/sbx.ts";
import type { Parsed } from "../../helper/json.ts";

/** A free port, not reserved. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** Starts a published server and waits until it listens. */
async function startPublished(
  port: number,
  args: string[],
  env: Record<string, string> = {},
): Promise<Deno.ChildProcess> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--quiet",
      "--config",
      fromRoot("deno.json"),
      fromRoot("tests/helper/mcp_published.ts"),
      ...args,
    ],
    env: { PORT: String(port), ...env },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  await eventually(
    `${args.join(" ")} listens`,
    () => Deno.connect({ hostname: "127.0.0.1", port }).then((conn) => (conn.close(), true), () => false),
  );
  return child;
}

async function end(...children: Deno.ChildProcess[]) {
  for (const child of children) child.kill("SIGTERM");
  await Promise.all(children.map((child) => child.status));
}

const textOf = (result: Parsed) => result.content.map((part: Parsed) => part.text ?? part.type).join("\n");

Deno.test("mcp published: server-everything by Streamable HTTP and by HTTP+SSE, with tools, resources, prompts and progress", async () => {
  const [port, ssePort] = [freePort(), freePort()];
  const children = await Promise.all([
    startPublished(port, ["everything", "streamableHttp"]),
    startPublished(ssePort, ["everything", "sse"]),
  ]);
  const definitions = [
    definition("every", `http://127.0.0.1:${port}/mcp`),
    definition("older", `http://127.0.0.1:${ssePort}/sse`),
  ];
  await withAggregator(definitions, async (aggregator) => {
    const servers = await aggregator.listServers();
    assertEquals(servers.map(({ connected }) => connected), [true, true], JSON.stringify(servers));
    for (const name of ["every", "older"]) {
      assertMatch(textOf(await aggregator.callTool(`${name}__echo`, { message: "hello" })), /hello/);
      assertMatch(textOf(await aggregator.callTool(`${name}__get-sum`, { a: 2, b: 40 })), /42/);
      assertMatch(textOf(await aggregator.callTool(`${name}__get-tiny-image`, {})), /image/);
    }
    const seen: Progress[] = [];
    await aggregator.callTool("every__trigger-long-running-operation", { duration: 0.4, steps: 4 }, {
      progress: (progress) => seen.push(progress),
    });
    assertEquals(seen.map(({ progress, total }) => [progress, total]), [[1, 4], [2, 4], [3, 4], [4, 4]]);
    const resources = await aggregator.listResources();
    const mine = resources.filter(({ server_name }) => server_name === "every");
    assert(mine.length > 0);
    assertEquals(mine[0].namespaced_uri, `sbx://every/${mine[0].original_uri}`);
    const read: Parsed = await aggregator.readResource(mine[0].namespaced_uri);
    assertEquals(read.contents[0].uri, mine[0].original_uri);
    const prompts = await aggregator.listPrompts();
    const simple = prompts.find(({ namespaced_name }) => namespaced_name === "every__simple-prompt");
    assert(simple, JSON.stringify(prompts.map((prompt) => prompt.namespaced_name)));
    const prompt: Parsed = await aggregator.getPrompt(simple!.namespaced_name, {});
    assert(prompt.messages.length > 0);
  });
  await end(...children);
});

Deno.test("mcp published: server-memory and server-filesystem, each behind a bridge", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/note.txt`, "what is in the note");
  const [memoryPort, filesPort] = [freePort(), freePort()];
  const children = await Promise.all([
    startPublished(memoryPort, ["bridge", String(memoryPort), "memory"], {
      MEMORY_FILE_PATH: `${dir}/memory.json`,
    }),
    startPublished(filesPort, ["bridge", String(filesPort), "filesystem", dir]),
  ]);
  const definitions = [
    definition("memory", `http://127.0.0.1:${memoryPort}/mcp`),
    definition("files", `http://127.0.0.1:${filesPort}/mcp`),
  ];
  await withAggregator(definitions, async (aggregator) => {
    const tools = await aggregator.listTools();
    assert(tools.some(({ namespaced_name }) => namespaced_name === "memory__create_entities"));
    assertMatch(
      textOf(await aggregator.callTool("files__read_text_file", { path: `${dir}/note.txt` })),
      /what is in the note/,
    );
    const entity = { name: "sbx", entityType: "program", observations: ["runs VMs"] };
    await aggregator.callTool("memory__create_entities", { entities: [entity] });
    assertMatch(textOf(await aggregator.callTool("memory__search_nodes", { query: "VMs" })), /sbx/);
    const refused: Parsed = await aggregator.callTool("files__read_text_file", { path: "/etc/passwd" });
    assertEquals(refused.isError, true);
    const unknown = await assertRejects(() => aggregator.callTool("memory__read_text_file", {}), SbxError);
    assertEquals(unknown.code, "mcp.tool.not_found");
    await aggregator.callTool("memory__delete_entities", { entityNames: ["sbx"] });
  });
  await end(...children);
  await Deno.remove(dir, { recursive: true });
});
