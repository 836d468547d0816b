/** Model calls, read from the same bytes that pass (contracts.md §5): requests, streams, tokens and what they cost. */
export { PARSE_ERROR } from "./call.ts";
export * from "./limit.ts";
export { BUILT_IN_PRICES, loadPrices, Prices, type Usage } from "./price.ts";
export { providerOf, UNKNOWN } from "./provider.ts";
export { ModelReader } from "./reader.ts";
export type { Header, ModelCall, ModelRequest, ModelResponse } from "./types.ts";
