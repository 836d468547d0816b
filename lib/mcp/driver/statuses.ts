import type { AggregatorDefinition } from "../definition.ts";
import type { ServerStatus } from "../entry.ts";

/** Servers as they are while no aggregator runs: none is connected, and it is said why. */
export function unconnected(definitions: AggregatorDefinition[], why: string): ServerStatus[] {
  return definitions.map(({ name, url, enabled, source, unsupported_stdio }) => {
    const reason = unsupported_stdio
      ? "stdio servers are not supported: only servers that are reached by HTTP are"
      : why;
    return {
      name,
      url,
      enabled,
      source,
      connected: false,
      tool_count: 0,
      resource_count: 0,
      prompt_count: 0,
      ...(enabled && { last_error: reason }),
    };
  });
}
