/**
 * Runs the real sbx-mcp-aggregator against the server of one scenario of the conformance suite: connects, lists, and
 * calls every tool. The last argument is the server's URL.
 */
import { defaultsOf } from "../../lib/mcp/endpoint/mod.ts";
import { Aggregator } from "../../lib/mcp/mod.ts";
import { fromRoot } from "../helper/repo.ts";

const url = Deno.args.at(-1)!;
const dir = await Deno.makeTempDir({ prefix: "sbx-conformance-" });
const aggregator = await Aggregator.start({
  definitions: [
    {
      name: "suite",
      url,
      headers: {},
      enabled: true,
      source: "test",
      unsupported_stdio: false,
      auth: undefined,
    },
  ],
  dir,
  command: [fromRoot("bin/sbx-mcp-aggregator")],
  log: (line) => console.error(line),
});
// A person who allows every question, without a program of a guest to fill the form in.
aggregator.answerRequests(({ params }) => {
  const content = defaultsOf(params);
  return Promise.resolve(content ? { action: "accept", content } : { action: "decline" });
});
try {
  const tools = await aggregator.listTools();
  for (const { namespaced_name, input_schema } of tools) {
    const result = await aggregator.callTool(namespaced_name, argumentsFor(input_schema)).catch((error) =>
      error.message
    );
    console.log(namespaced_name, JSON.stringify(result));
  }
  await Promise.all([aggregator.listResources(), aggregator.listPrompts()]);
  const [server] = await aggregator.listServers();
  console.log(JSON.stringify(server));
  Deno.exitCode = server.connected ? 0 : 1;
} finally {
  await aggregator.close();
  await Deno.remove(dir, { recursive: true });
}

/** Arguments for every property of a tool's schema. */
function argumentsFor(schema: Record<string, unknown>): Record<string, unknown> {
  const properties = (schema.properties ?? {}) as Record<string, { type?: string }>;
  return Object.fromEntries(
    Object.entries(properties).map(([name, { type }]) => [
      name,
      type === "number" || type === "integer" ? 5 : type === "boolean" ? true : "text",
    ]),
  );
}
