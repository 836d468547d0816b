/** Hosts that the programs of a session reach: requests of a timeline by program and host. */
import type { Row } from "../timeline/lines.ts";

/** The requests of one program to one host. */
export interface Flow {
  program: string;
  host: string;
  events: number;
  blocked: number;
  /** of requests and of responses */
  bytes: number;
}

/** The flows of some requests, the one with the most bytes first. */
export function flowsOf(rows: readonly Row[]): Flow[] {
  const flows = new Map<string, Flow>();
  for (const { program, host, bytes = 0, decision } of rows) {
    if (host === undefined) continue;
    const key = `${program} ${host}`;
    const flow = flows.get(key) ?? { program, host, events: 0, blocked: 0, bytes: 0 };
    flow.events++;
    flow.bytes += bytes;
    if (decision === "block") flow.blocked++;
    flows.set(key, flow);
  }
  return [...flows.values()].sort((a, b) => b.bytes - a.bytes || b.events - a.events);
}
