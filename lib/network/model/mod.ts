/**
 * Model calls read from bytes in transit (docs/design/contracts/05-policy.md §5): requests, streams, token
 * counts and costs.
 */
export { PARSE_ERROR } from "./call.ts";
export * from "./limit.ts";
export { BUILT_IN_PRICES, loadPrices, Prices, PRICES_NOTE, type Usage } from "./price.ts";
export { ModelReader } from "./reader.ts";
export type { Header, ModelCall, ModelRequest, ModelResponse } from "./api.ts";
