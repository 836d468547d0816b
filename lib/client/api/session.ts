/** Routes of a session's ledger (docs/design/contracts/12-ledger.md §12). */
import { createRoute, z } from "@hono/zod-openapi";
import { BudgetUse } from "../../policy/budget/schema.ts";
import { EVENT_FAMILIES, SEVERITIES } from "../../event/mod.ts";
import { answers, VmParam } from "./common.ts";
import { ListedFinding } from "./detection.ts";

export const EventsResult = z.object({
  events: z.array(z.record(z.string(), z.unknown())),
  next_cursor: z.string().optional().describe("?cursor= of the next page; absent at the end"),
}).openapi("Events");
export type EventsResult = z.infer<typeof EventsResult>;

/** Longest text of a condition, in characters (docs/design/contracts/02-http.md §2, "Records"). */
const CONDITION_MAX = 1024;
const text = z.string().min(1).max(CONDITION_MAX).optional();
const time = z.coerce.number().int().min(0).optional();

export const EventsQuery = z.object({
  cursor: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  order: z.enum(["oldest", "newest"]).optional().describe("newest: from the end of the record backwards"),
  family: z.enum(EVENT_FAMILIES).optional(),
  network: z.enum(["true", "false"]).transform((value) => value === "true").optional()
    .describe("only HTTP requests, and DNS questions that led to no address"),
  denied: z.enum(["true", "false"]).transform((value) => value === "true").optional()
    .describe("only refused events"),
  decision: z.enum(["allow", "ask", "block"]).optional().describe("only events with this final decision"),
  severity: z.enum(SEVERITIES).optional().describe(
    "only events with a finding of this severity or a higher one",
  ),
  since: time.describe("only events from this time on, unix milliseconds"),
  until: time.describe("only events before this time, unix milliseconds"),
  host: text.describe("only requests to this host, `*` for any characters; also DNS names and credentials"),
  process: text.describe("only events of this executable: its path, or the last part of it"),
  path: text.describe("only requests and files of this path, `*` for any characters"),
  address: text.describe(
    "only requests to this IP address, `*` for any characters; also DNS questions that it answered",
  ),
  grep: text.describe("only events that have this text anywhere, upper and lower case being the same"),
});

/** Longest wait for an event, in `s` (docs/design/contracts/02-http.md §2, "Promises"). */
export const WAIT_SECS_MAX = 60;

export const SessionEventsQuery = EventsQuery.extend({
  wait_secs: z.coerce.number().min(0).max(WAIT_SECS_MAX).optional().describe(
    "a page without events is answered when there is one, or after this time; not with newest",
  ),
});

const choice = {
  profile: text.describe("only sessions of VMs of this profile"),
  vm: text.describe("only sessions of the VM of this name or id, deleted or not"),
};

export const AcrossQuery = EventsQuery.extend(choice);

/** Shortest and longest step of counts, in `ms`. */
const [STEP_MIN, STEP_MAX] = [1000, 7 * 24 * 3600 * 1000];
const STEP = 3600 * 1000;
const MINUTE = 60 * 1000;

export const EventCountsQuery = AcrossQuery.omit({ cursor: true, limit: true, order: true }).extend({
  step: z.coerce.number().int().min(STEP_MIN).max(STEP_MAX).default(STEP).describe(
    "milliseconds of a step; steps begin at multiples of it",
  ),
});

export const EventCounts = z.object({
  step: z.int(),
  steps: z.array(z.object({
    at_unix_ms: z.int().describe("begin of the step"),
    events: z.int(),
    denied: z.int(),
    asked: z.int().describe("events that still wait for an answer"),
    families: z.record(z.string(), z.int()).describe("events by family"),
  })).describe("oldest first; steps without an event are left out"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("EventCounts");
export type EventCounts = z.infer<typeof EventCounts>;

export const OverviewQuery = z.object({
  since: z.coerce.number().int().min(0).describe("begin of the counts of each VM, unix milliseconds"),
  today: z.coerce.number().int().min(0).describe("begin of the counts of all sessions, unix milliseconds"),
  step: z.coerce.number().int().min(STEP_MIN).max(STEP_MAX).default(MINUTE).describe(
    "milliseconds of a step; steps begin at multiples of it",
  ),
});

export const Overview = z.object({
  today: z.object({
    events: z.int(),
    denied: z.int(),
    calls: z.int().describe("answered calls of models"),
    cost_micros: z.int().describe("millionths of a US dollar"),
    unpriced_calls: z.int().describe("calls with tokens whose price is not known"),
  }).describe("counts of all sessions, of deleted VMs too"),
  vms: z.array(z.object({
    id: z.string(),
    steps: z.array(z.object({
      at_unix_ms: z.int().describe("begin of the step"),
      events: z.int(),
      denied: z.int(),
      asked: z.int().describe("events that still wait for an answer"),
    })).describe("oldest first; steps without an event are left out"),
    last: z.record(z.string(), z.unknown()).optional().describe("the newest event"),
    calls: z.int().describe("answered calls of models"),
    cost_micros: z.int().describe("millionths of a US dollar"),
    unpriced_calls: z.int().describe("calls with tokens whose price is not known"),
  })).describe("VMs that exist and have a record"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("Overview");
export type Overview = z.infer<typeof Overview>;

export const AcrossEvents = z.object({
  events: z.array(z.record(z.string(), z.unknown())).describe(
    "oldest first unless `order` says otherwise, each with its `vm`",
  ),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
  next_cursor: z.string().optional().describe("?cursor= of the next page; absent at the end"),
}).openapi("AcrossEvents");
export type AcrossEvents = z.infer<typeof AcrossEvents>;

export const AcrossFindingsQuery = z.object({
  ...choice,
  since: time.describe("only findings about events from this time on, unix milliseconds"),
  until: time.describe("only findings about events before this time, unix milliseconds"),
  severity: z.enum(SEVERITIES).optional().describe("only this severity and the ones above"),
  decision: text.describe("only findings whose event had this outcome"),
});

export const AcrossFindings = z.object({
  findings: z.array(ListedFinding.extend({ session_id: z.string() })).describe("oldest first"),
  truncated: z.boolean().describe("more than 10,000"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("AcrossFindings");
export type AcrossFindings = z.infer<typeof AcrossFindings>;

export const SessionsQuery = z.object({
  ...choice,
  state: z.enum(["past", "running"]).optional().describe("past: its VM has ended; absent: all"),
  since: time.describe("only sessions that were there from this time on, unix milliseconds"),
  until: time.describe("only sessions that began before this time, unix milliseconds"),
  limit: z.coerce.number().int().min(1).max(1000).optional().describe("sessions of a page; default 1000"),
  cursor: z.string().max(64).optional().describe("next_cursor of the page before"),
});

export const SessionList = z.object({
  sessions: z.array(z.object({
    id: z.string(),
    name: z.string(),
    profile_id: z.string(),
    profile_revision: z.string(),
    created_at: z.iso.datetime(),
    ended_at: z.iso.datetime().optional(),
    user: z.string().optional().describe("user of the host; absent, as the next two: made by an older sbx"),
    device: z.string().optional().describe("name of the host"),
    client: z.string().optional().describe("program that asked for the VM, as it named itself"),
    agent: z.string().optional().describe("profile of the agent that the VM was made for"),
  })),
  next_cursor: z.string().optional().describe("?cursor= of the next page; absent at the end"),
}).openapi("SessionList");
export type SessionList = z.infer<typeof SessionList>;

const ModelCosts = z.object({
  provider: z.string(),
  model: z.string(),
  calls: z.int().describe("answered calls"),
  input_tokens: z.int(),
  cached_input_tokens: z.int().describe("input tokens read from a cache"),
  output_tokens: z.int(),
  cost_micros: z.int().describe("millionths of a US dollar, of the calls whose price is known"),
  unpriced_calls: z.int().describe("calls with tokens whose price is not known"),
  estimated_calls: z.int().describe("calls at the price of another model, or at one that no source has"),
  price_basis: z.enum(["family", "dearest", "unchecked"]).optional().describe(
    "whose price these are at: the model's family, or the dearest of the provider; or that no source has its own",
  ),
});
const DayCosts = ModelCosts.extend({ day: z.iso.date().describe("UTC, as budgets count") });
const prices = z.string().describe("the table of prices, its date and its source");
const days = z.array(DayCosts).describe("costs by day and model, the oldest day first");

export const CostReport = z.object({
  prices,
  models: z.array(ModelCosts).describe("the most expensive first"),
  days,
  budgets: z.array(BudgetUse).describe("limits of a running VM, with the amount used of each"),
}).openapi("CostReport");
export type CostReport = z.infer<typeof CostReport>;

export const AcrossCostsQuery = z.object({
  ...choice,
  since: time.describe("only calls from this time on, unix milliseconds"),
});

export const AcrossCosts = z.object({
  prices,
  days,
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("AcrossCosts");
export type AcrossCosts = z.infer<typeof AcrossCosts>;

export const SessionVerification = z.object({
  ok: z.boolean(),
  events: z.int().describe("valid events, counted from the first"),
  sealed: z.boolean().describe("its end is proven too"),
  signed_by: z.object({
    id: z.string(),
    trusted: z.boolean().describe("the key is this machine's"),
  }).optional().describe("absent: the seal is not signed"),
  witnessed: z.object({
    events: z.int().describe("number of the last event that the service saw while it was recorded"),
    at: z.iso.datetime().describe("time at which it saw that"),
    newer: z.int().describe("events after that one"),
  }).optional().describe("absent: the service saw nothing of it, or the record is not as it saw it"),
  first_bad: z.object({
    reason: z.string(),
    event_id: z.string().optional(),
    sequence: z.int().optional(),
    code: z.enum(["witness.lost", "witness.rewritten", "witness.contradicted"]).optional().describe(
      "the record is whole, and not as the service saw it",
    ),
  }).optional().describe("the first problem"),
}).openapi("SessionVerification");
export type SessionVerification = z.infer<typeof SessionVerification>;

export const SignedCertificate = z.object({
  payloadType: z.string(),
  payload: z.string().describe("base64 of the certificate, in JSON"),
  signatures: z.array(z.object({ keyid: z.string(), sig: z.string() })),
}).openapi("SignedCertificate", { description: "a DSSE envelope, as sbx certify --verify reads it" });
export type SignedCertificate = z.infer<typeof SignedCertificate>;

export const RemovedSession = z.object({
  id: z.string(),
  name: z.string().describe("name of its VM"),
  events: z.int().describe("events of the removed record"),
  bytes: z.int().describe("space freed on the disk"),
}).openapi("RemovedSession");
export type RemovedSession = z.infer<typeof RemovedSession>;

export const sessionRoutes = {
  remove: createRoute({
    method: "delete",
    path: "/sessions/{id}",
    tags: ["session"],
    request: { params: VmParam },
    responses: answers("the record that was removed; its tombstone stays in the register", RemovedSession),
  }),
  verify: createRoute({
    method: "get",
    path: "/sessions/{id}/verify",
    tags: ["session"],
    request: { params: VmParam },
    responses: answers("whether the record is as it was recorded, as sbx verify says", SessionVerification),
  }),
  costs: createRoute({
    method: "get",
    path: "/sessions/{id}/costs",
    tags: ["session"],
    request: { params: VmParam },
    responses: answers("model calls by model, with their tokens and estimated costs", CostReport),
  }),
  certificate: createRoute({
    method: "get",
    path: "/sessions/{id}/certificate",
    tags: ["session"],
    request: { params: VmParam },
    responses: answers("a certificate of the session, signed by the key of this machine", SignedCertificate),
  }),
  list: createRoute({
    method: "get",
    path: "/sessions/list",
    tags: ["session"],
    request: { query: SessionsQuery },
    responses: answers("recorded sessions, newest first", SessionList),
  }),
  across: createRoute({
    method: "get",
    path: "/sessions/events",
    tags: ["session"],
    request: { query: AcrossQuery },
    responses: answers("events of all sessions, in the order of time", AcrossEvents),
  }),
  counts: createRoute({
    method: "get",
    path: "/sessions/events/counts",
    tags: ["session"],
    request: { query: EventCountsQuery },
    responses: answers("how many events happened when, by family and decision", EventCounts),
  }),
  overview: createRoute({
    method: "get",
    path: "/sessions/overview",
    tags: ["session"],
    request: { query: OverviewQuery },
    responses: answers("counts, the newest event and costs of each VM, in one answer", Overview),
  }),
  costsAcross: createRoute({
    method: "get",
    path: "/sessions/costs",
    tags: ["session"],
    request: { query: AcrossCostsQuery },
    responses: answers("model calls of all sessions by day and model, with estimated costs", AcrossCosts),
  }),
  findingsAcross: createRoute({
    method: "get",
    path: "/sessions/findings",
    tags: ["session"],
    request: { query: AcrossFindingsQuery },
    responses: answers("findings of all sessions, oldest first", AcrossFindings),
  }),
  events: createRoute({
    method: "get",
    path: "/sessions/{id}/events",
    tags: ["session"],
    request: { params: VmParam, query: SessionEventsQuery },
    responses: answers("normalized events, oldest first unless `order` says otherwise", EventsResult),
  }),
};
