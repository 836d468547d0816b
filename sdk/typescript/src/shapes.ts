/** Shapes of the API, from schemas/api.v1.json. */
import type { components, paths } from "./generated/api.ts";

type Schemas = components["schemas"];

export type VmInfo = Schemas["VmInfo"];
export type VmListed = Schemas["VmListed"];
export type VmPage = paths["/vms/list"]["get"]["responses"][200]["content"]["application/json"];
export type VmStatus = Schemas["VmStatus"];
export type Budget = NonNullable<Schemas["VmCreate"]["budget"]>;
export type Limits = NonNullable<Schemas["VmCreate"]["limits"]>;
export type ProgramLimits = NonNullable<Schemas["Exec"]["limits"]>;
export type ReachedLimit = NonNullable<Schemas["ExecResult"]["limits_reached"]>[number];
export type Ask = Schemas["Ask"];
export type AskAnswer = Omit<Schemas["AskResolve"], "digest">;
export type Costs = Schemas["CostReport"];
export type Why = Schemas["Why"];
export type Snapshot = Schemas["Snapshot"];
export type SnapshotRestored = Schemas["SnapshotRestored"];
export type FileEntry = Schemas["FileEntry"];
export type Port = Schemas["Port"];
export type SignedCertificate = Schemas["SignedCertificate"];
export type VmCreate = Schemas["VmCreate"];
export type VmForks = Schemas["VmForks"];
export type Vm = Schemas["Vm"];
export type FileList = Schemas["FileList"];
export type WorkPatch = Schemas["WorkPatch"];
export type RepositoryBrought = Schemas["RepositoryBrought"];
type Query = NonNullable<paths["/sessions/{id}/events"]["get"]["parameters"]["query"]>;
/** Conditions of events. */
export type EventQuery = {
  [Name in Exclude<keyof Query, "cursor" | "order" | "wait_secs" | "limit">]?: NonNullable<Query[Name]>;
};

/** An event of a VM's record; docs/reference/event-fields.md has its fields. */
export interface SbxEvent {
  common: {
    event_id: string;
    event_type: string;
    sequence: number;
    timestamp_unix_ms: number;
    session_id: string;
  };
  decision?: string;
  rule_id?: string;
  [family: string]: unknown;
}
