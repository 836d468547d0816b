/** The driver with the real aggregator process, in a folder of its own. */
import { Aggregator, type AggregatorDefinition, type AggregatorOptions } from "../../lib/mcp/mod.ts";

/** Runs `use` with an aggregator that is closed afterwards. */
export async function withAggregator(
  definitions: AggregatorDefinition[],
  use: (aggregator: Aggregator, log: string[]) => Promise<void>,
  options: Partial<AggregatorOptions> = {},
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-mcp-" });
  const log: string[] = [];
  const aggregator = await Aggregator.start({ definitions, dir, log: (line) => log.push(line), ...options });
  try {
    await use(aggregator, log);
  } finally {
    await aggregator.close();
    await Deno.remove(dir, { recursive: true });
  }
}
