/** Events of databases: the connection is a `CONNECT` as of any protocol, each statement a `db.statement`. */
import type { DbEvent } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type { Requester } from "../exchange/request.ts";
import type { DatabaseSystem } from "../interface/mod.ts";
import type { Reading } from "./statement.ts";

/** The account and database of a connection. */
export interface DatabasePlace {
  system: DatabaseSystem;
  host: string;
  port: number;
  user: string;
  name: string;
}

/** Drafts the event of a statement. @param bytes length of its text */
export function statementDraft(by: Requester, place: DatabasePlace, reading: Reading, bytes: number): Draft {
  const { kind, command, fingerprint, prepared } = reading;
  const request: DbEvent["request"] = {
    ...place,
    kind,
    command,
    statement: fingerprint,
    ...(prepared !== undefined && { prepared }),
    bytes,
  };
  return { common: { event_type: "db.statement", source_engine: "network", ...by }, db: { request } };
}
