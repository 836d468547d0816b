/** Expressions of rules, evaluated as the engine does. */
import type { Event } from "../../lib/event/mod.ts";
import { environment, resetCost } from "../../lib/policy/engine/cel.ts";
import { compileMatch, type Program } from "../../lib/policy/engine/compile.ts";
import { FlatEvent } from "../../lib/policy/engine/field.ts";

/** Event with most fields of http and mcp, and some absent. */
const SAMPLE = {
  schema_version: 1,
  common: {
    event_type: "http.request",
    timestamp_unix_ms: 1_700_000_000_000,
    sequence: 7,
    labels: { team: "red" },
  },
  http: {
    request: {
      method: "POST",
      host: "api.github.com",
      port: 443,
      path: "/repos/Ünï/x",
      bytes: 0,
      headers: { accept: ["a", "b"], "x-id": ["42"] },
      body: { state: "text", text: "hello 😀", truncated: true },
    },
  },
  mcp: {
    request: {
      arguments: { n: 5, f: 1.5, s: "text", b: true, z: null, list: [1, 2, 3], map: { k: "v" }, empty: [] },
    },
  },
} as unknown as Event;

/** Value of an expression on an event. */
export function evaluate(match: string, event = SAMPLE): unknown {
  const program = environment.parse(compileMatch(match).text) as Program;
  resetCost();
  return program(new FlatEvent(event));
}
