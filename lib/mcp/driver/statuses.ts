import type { AggregatorDefinition } from "../definition.ts";
import type { ServerStatus } from "../entry.ts";
import { STDIO_UNSUPPORTED } from "../text.ts";

/** Statuses while no aggregator runs: no server is connected, for the reason given. */
export function offlineStatuses(definitions: AggregatorDefinition[], reason: string): ServerStatus[] {
  return definitions.map(({ name, url, enabled, source, unsupported_stdio }) => ({
    name,
    url,
    enabled,
    source,
    connected: false,
    tool_count: 0,
    resource_count: 0,
    prompt_count: 0,
    ...(enabled && { last_error: unsupported_stdio ? STDIO_UNSUPPORTED : reason }),
  }));
}
