/** DNS for guests, answered on the host by policy (issue 5; contracts.md §5, §7). Loading it takes 25 ms: import it beside a boot. */
export type { Asker } from "./draft.ts";
export { CACHE_LIMITS, type CacheLimits } from "./limit.ts";
export { Overrides, type Target } from "./override.ts";
export { parseResolvers, type Resolver, systemResolvers } from "./resolver.ts";
export { type DnsOptions, DnsService } from "./service.ts";
