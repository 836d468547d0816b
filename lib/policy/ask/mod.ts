/** Limits and words of asks for pages and small programs: no rule engine and no zod. */
export * from "./limit.ts";
export { whyLine } from "./why.ts";
