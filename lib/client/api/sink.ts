/** Routes of the sinks of events (docs/design/contracts/06-detection.md §6, "Sinks"). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";

const sink = {
  id: z.string(),
  form: z.string().describe("syslog, hec, elastic, otlp, file"),
  url: z.string(),
};

export const SinkStanding = z.object({
  ...sink,
  owner: z.enum(["corp", "user"]).describe("corp.toml, or the person's sinks.toml"),
  sent: z.int().describe("events that it took since the service started"),
  refused: z.int(),
  set_aside: z.int().describe(
    "events that it refused or failed on again and again, until the file is removed",
  ),
  set_aside_file: z.string().nullable().describe("the list of them on this machine; null: none"),
  dropped: z.int().describe("events whose ledgers were removed before it had them"),
  lag: z.int().describe("events that wait for it"),
  oldest_unix_ms: z.int().nullable().describe("time of the oldest of them"),
  last_error: z.string().nullable().describe("why they wait; null: the last round went well"),
  last_success_unix_ms: z.int().nullable().describe("null: none since the service started"),
  last_failure: z.object({ at_unix_ms: z.int(), message: z.string() }).nullable(),
}).openapi("SinkStanding");
export type SinkStanding = z.infer<typeof SinkStanding>;

export const SinkList = z.object({ sinks: z.array(SinkStanding) }).openapi("SinkList");
export type SinkList = z.infer<typeof SinkList>;

export const SinkTrials = z.object({
  sinks: z.array(z.object({
    ...sink,
    ok: z.boolean(),
    took_ms: z.int(),
    session_id: z.string().describe("session of the test event, to find it by"),
    error: z.string().optional(),
  })),
}).openapi("SinkTrials");
export type SinkTrials = z.infer<typeof SinkTrials>;

export const sinkRoutes = {
  list: createRoute({
    method: "get",
    path: "/corp/sinks",
    tags: ["corp"],
    responses: answers(
      "each sink of corp.toml and of the person's sinks.toml, with the events that wait for it",
      SinkList,
    ),
  }),
  try: createRoute({
    method: "post",
    path: "/corp/sinks/try",
    tags: ["corp"],
    responses: answers("answers of the sinks of corp.toml and of sinks.toml to a test event", SinkTrials),
  }),
};
