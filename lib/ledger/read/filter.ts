/**
 * Conditions on the events of a list, as SQL over {@linkcode EVENTS_WITH_OUTCOMES}
 * (docs/design/contracts/02-http.md §2, "Records").
 */
import type { InValue } from "@libsql/client/sqlite3";
import type { EventFamily } from "../../event/mod.ts";
import { DECISION, EVENTS_WITH_OUTCOMES, FAMILY } from "../views.ts";

/** Selects events; each listed event passes every condition. */
export interface EventConditions {
  family?: EventFamily;
  /** HTTP requests, and DNS questions that led to no address */
  network?: boolean;
  /** blocked events only */
  denied?: boolean;
  /** the decision that was final */
  decision?: string;
  /** events from this time on only, unix `ms` */
  since?: number;
  /** events before this time only, unix `ms` */
  until?: number;
  /** host of a request, of a DNS question or of a credential; `*` stands for any characters */
  host?: string;
  /** executable of the process: its path, or the last part of it */
  process?: string;
  /** path of a request or of a file; `*` stands for any characters */
  path?: string;
  /** text that the event or its outcome has anywhere, upper and lower case being the same */
  grep?: string;
}

/** Part of a SELECT after its columns; the caller binds the cursor as `?1`. */
export interface Selection {
  /** `FROM … WHERE …` */
  from: string;
  /** values from `?2` on */
  args: InValue[];
}

/** Events blocked finally; the indexes of blocked rows name the candidates. */
const DENIED = `${DECISION} = 'block' AND entries.sequence IN (
  SELECT sequence FROM entries WHERE decision = 'block' AND sequence > ?1 UNION ALL
  SELECT sequence FROM outcomes JOIN entries USING (event_id) WHERE outcomes.decision = 'block')`;

/** DNS questions that led to no address: refused, failed, or answered without one. */
const ANSWER = "coalesce(outcome->'$.response', event->'$.dns.response')";
const UNRESOLVED =
  `(${DECISION} = 'block' OR outcome->>'$.error' IS NOT NULL OR ${ANSWER}->>'$.rcode' <> 'NOERROR'
  OR event->>'$.dns.request.qtype' = 'A' AND json_array_length(${ANSWER}->'$.answers') = 0)`;

const TIME = "event->>'$.common.timestamp_unix_ms'";
const HOST = firstOf("http.request.host", "dns.request.qname", "credential.substitution.host");
const PATH = firstOf("http.request.path", "file.activity.path");
const PROCESS = firstOf("common.process.executable", "process.activity.executable");

/** Translates conditions. A condition costs the events that it reads; events of a later page are not read. */
export function selectionOf(conditions: EventConditions): Selection {
  const args: InValue[] = [];
  /** @returns the placeholder of a value */
  const bind = (value: InValue) => `?${args.push(value) + 1}`;
  const where = ["entries.sequence > ?1"];
  const { family, network, denied, decision, since, until, host, process, path, grep } = conditions;
  if (denied) where.push(DENIED);
  if (family) where.push(`${FAMILY} = ${bind(family)}`);
  if (network) where.push(`(${FAMILY} = 'http' OR ${FAMILY} = 'dns' AND ${UNRESOLVED})`);
  if (decision) where.push(`${DECISION} = ${bind(decision)}`);
  if (since !== undefined) where.push(`${TIME} >= ${bind(since)}`);
  if (until !== undefined) where.push(`${TIME} < ${bind(until)}`);
  if (host !== undefined) where.push(`lower(${HOST}) GLOB ${bind(globOf(host.toLowerCase()))}`);
  if (path !== undefined) where.push(`${PATH} GLOB ${bind(globOf(path))}`);
  if (process !== undefined) {
    const exact = bind(process);
    const end = bind(`/${process}`);
    where.push(`(${PROCESS} = ${exact} OR substr(${PROCESS}, -length(${end})) = ${end})`);
  }
  if (grep !== undefined) {
    const text = bind(jsonText(grep).toLowerCase());
    where.push(`(instr(lower(event), ${text}) OR instr(lower(outcome), ${text}))`);
  }
  return { from: `FROM ${EVENTS_WITH_OUTCOMES} WHERE ${where.join(" AND ")}`, args };
}

function firstOf(...paths: string[]): string {
  return `coalesce(${paths.map((path) => `event->>'$.${path}'`).join(", ")})`;
}

/** A GLOB pattern in which only `*` is special. */
function globOf(pattern: string): string {
  return pattern.replaceAll(/[[?]/g, "[$&]");
}

/** A text as escaped within JSON. */
function jsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
