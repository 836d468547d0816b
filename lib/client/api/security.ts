/** Routes of the state of security (docs/design/contracts/02-http.md §2, "Status"). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, VmParam } from "./common.ts";
import { VmStatus } from "./vm.ts";

const VmStanding = z.object({
  id: z.uuid(),
  name: z.string(),
  status: VmStatus,
  profile_id: z.string(),
  profile_revision: z.string(),
  outdated: z.boolean().describe(
    "the profile's files have changed since; this VM still runs with the earlier ones",
  ),
  problems: z.array(z.string()).describe(
    "reasons why it failed, stands still, lacks something or keeps older rules",
  ),
});

export const SecurityStatus = z.object({
  ok: z.boolean(),
  issues: z.array(z.string()).describe("as in GET /status"),
  corp: z.string().describe("state of corp.toml"),
  machine_key: z.string().nullable().describe("id of the key that signs records; null until it is made"),
  vms: z.array(VmStanding),
}).openapi("SecurityStatus");
export type SecurityStatus = z.infer<typeof SecurityStatus>;

const list = z.object({
  rows: z.array(z.record(z.string(), z.union([z.string(), z.number()]))),
  omitted: z.int().describe("rows beyond the limit"),
});

export const VmSecurityStatus = VmStanding.extend({
  ledger: z.object({
    events: z.int(),
    head_hash: z.string(),
    outcomes: z.int(),
    outcome_hash: z.string(),
    journal: z.int(),
    journal_hash: z.string(),
  }).nullable().describe("null before the first boot"),
  evidence: z.object({
    decisions: list,
    hosts: list,
    names: list,
    mcp_servers: list,
    credentials: list,
    findings: list,
    gaps: list,
  }).nullable().describe("sums of the record, as a certificate has them"),
}).openapi("VmSecurityStatus");
export type VmSecurityStatus = z.infer<typeof VmSecurityStatus>;

export const VmSecurityLatest = z.object({
  findings: z.array(z.record(z.string(), z.unknown())).describe("newest first, at most 20"),
  denied: z.array(z.object({
    sequence: z.int(),
    event_id: z.string(),
    event_type: z.string(),
    rule_id: z.string().nullable(),
  })).describe("events that a rule or a guard refused at once, newest first, at most 20"),
}).openapi("VmSecurityLatest");
export type VmSecurityLatest = z.infer<typeof VmSecurityLatest>;

const vmRoute = <P extends string, S extends z.ZodType>(path: P, description: string, schema: S) =>
  createRoute({
    method: "get",
    path,
    tags: ["security"],
    request: { params: VmParam },
    responses: answers(description, schema),
  });

export const securityRoutes = {
  status: createRoute({
    method: "get",
    path: "/security/status",
    tags: ["security"],
    responses: answers("active security features and problems", SecurityStatus),
  }),
  vmStatus: vmRoute("/vms/{id}/security/status", "one VM, with the sums of its record", VmSecurityStatus),
  vmLatest: vmRoute("/vms/{id}/security/latest", "latest findings and refusals", VmSecurityLatest),
};
