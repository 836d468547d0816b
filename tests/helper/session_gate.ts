/** The gate of a session over a real ledger, and drafts of events. */
import { SessionGate, type SessionNotice } from "../../lib/session/gate/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { parseRules } from "../../lib/policy/author/mod.ts";
import { compileLayers, type Draft } from "../../lib/policy/mod.ts";
import { type Contract, detectionsOf } from "../../lib/session/mod.ts";
import { httpRequest, processExec } from "./event.ts";
import { SESSION } from "./gate.ts";

/** The contract of a session with these rules. */
export function contractOf(rules: string, ledger: Partial<Contract["ledger"]> = {}): Contract {
  const all = parseRules(rules, "rules.toml");
  const [corp, profile] = [true, false].map((ofCorp) =>
    all.filter(({ layer }) => (layer === "corp") === ofCorp)
  );
  return {
    profile: { rules: profile, packs: [], mcp: {}, providers: [] },
    corp: { rules: corp, packs: [], mcp: {} },
    detection: { user: [], runtime: [] },
    network: { resolvers: [], overrides: [] },
    ledger: { on_full: "block", ...ledger },
  };
}

/** A gate and its ledger, as a test sees them. */
export interface GateFixture {
  gate: SessionGate;
  ledger: Ledger;
  path: string;
  notices: SessionNotice[];
  /** messages of the ledger's failures */
  failures: string[];
  /** rule ids of the findings in `notices` */
  findings(): string[];
  /** ends the session, so that its ledger can be read */
  close(): Promise<void>;
}

/**
 * Opens the gate of a contract over a ledger at `path`.
 *
 * @param keeps false: `notices` stays empty, for a measurement that the copies would be part of
 */
export async function openGate(
  path: string,
  contract: Contract,
  scrubValue: <T>(value: T) => T = (value) => value,
  keeps = true,
): Promise<GateFixture> {
  const notices: SessionNotice[] = [];
  const failures: string[] = [];
  const ledger = await Ledger.open(path, {
    sessionId: SESSION.id,
    maxBytes: contract.ledger.max_bytes,
    onError: ({ message }) => failures.push(message),
  });
  const gate = new SessionGate({
    session: SESSION,
    policy: compileLayers(contract),
    detections: detectionsOf(contract),
    recorder: ledger,
    tell: (notice) => keeps && notices.push(structuredClone(notice)),
    scrubValue,
  });
  const findings = () =>
    notices.flatMap((notice) => notice.type === "finding" ? [notice.payload.rule_id] : []);
  const close = async () => {
    gate.close();
    await ledger.close();
  };
  return { gate, ledger, path, notices, failures, findings, close };
}

/** Runs with a gate over these rules, in a folder of its own. */
export async function withGate(
  rules: string,
  run: (fixture: GateFixture) => Promise<void>,
  ledger?: Partial<Contract["ledger"]>,
  scrubValue?: <T>(value: T) => T,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const fixture = await openGate(`${folder}/session.db`, contractOf(rules, ledger), scrubValue);
  try {
    await run(fixture);
  } finally {
    await fixture.close().catch(() => {});
    await Deno.remove(folder, { recursive: true });
  }
}

export function http(host = "example.com", method = "GET"): Draft {
  return {
    common: { event_type: "http.request", source_engine: "network" },
    http: {
      request: httpRequest({ method, host }),
    },
  };
}

export function dns(qname: string, qtype: string): Draft {
  return {
    common: { event_type: "dns.query", source_engine: "network" },
    dns: { request: { qname, qtype, transport: "udp" } },
  };
}

export function exec(executable = "rm"): Draft {
  return {
    common: { event_type: "process.exec", source_engine: "process" },
    process: {
      activity: processExec({ executable }),
    },
  };
}

/** One rule, as a file has it; `layer` is `corp` or `profiles`. */
export function rule(layer: string, id: string, action: string, match: string, more = ""): string {
  return `[${layer}.rules.${id}]\naction = "${action}"\nmatch = '${match}'\n${more}\n`;
}

/** Matches every event. */
export const ANY = "has(common.event_id)";
export const RESPONSE = { status: 200, bytes: 2, headers: {}, body: { state: "missing", truncated: false } };
