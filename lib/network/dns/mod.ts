/**
 * DNS of guests, answered on the host under policy (docs/design/contracts/05-policy.md §5). Takes 25 ms
 * to load: import it during a boot.
 */
export { type DnsClient, type DnsOptions, DnsService } from "./service.ts";
export { CACHE_LIMITS, type CacheLimits } from "./limit.ts";
export { Overrides, type OverrideTarget } from "./override.ts";
export { parseResolvers, type Resolver, systemResolvers } from "./resolver.ts";
