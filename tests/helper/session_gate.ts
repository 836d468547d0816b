/** The gate of a session over rules, asks and a ledger that are all real. */
import type { Draft } from "../../lib/policy/mod.ts";
import { parseRules } from "../../lib/policy/author/read.ts";
import type { Contract } from "../../lib/session/files/contract.ts";
import { SessionGate, type SessionNotice } from "../../lib/session/gate.ts";

const RECORD = { id: "session-1", profile_id: "code", profile_revision: "1.2.3" };

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

export interface Given {
  gate: SessionGate;
  path: string;
  told: SessionNotice[];
  failures: string[];
  /** ids of the findings that were told, without their event's */
  findings(): string[];
}

/** Runs with a gate over these rules, in a folder of its own. */
export async function withGate(
  rules: string,
  run: (given: Given) => Promise<void>,
  ledger?: Partial<Contract["ledger"]>,
  scrub: (text: string) => string = (text) => text,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/session.db`;
  const told: SessionNotice[] = [];
  const failures: string[] = [];
  const gate = await SessionGate.open({
    paths: { ledger: path },
    record: RECORD,
    contract: contractOf(rules, ledger),
    tell: (notice) => told.push(structuredClone(notice)),
    scrub,
    onLedgerFailure: ({ message }) => failures.push(message),
  });
  const findings = () => told.flatMap((notice) => notice.type === "finding" ? [notice.payload.rule_id] : []);
  try {
    await run({ gate, path, told, failures, findings });
  } finally {
    await gate.close().catch(() => {});
    await Deno.remove(folder, { recursive: true });
  }
}

export function http(host = "example.com", method = "GET"): Draft {
  return {
    common: { event_type: "http.request", source_engine: "network" },
    http: {
      request: {
        method,
        scheme: "https",
        host,
        port: 443,
        path: "/",
        query: "",
        url: `https://${host}/`,
        path_class: "root",
        bytes: 0,
        headers: {},
        body: { state: "missing", truncated: false },
      },
    },
  };
}

export function exec(executable = "rm"): Draft {
  return {
    common: { event_type: "process.exec", source_engine: "process" },
    process: {
      activity: { operation: "exec", executable, command: executable, argv: [executable], cwd: "/root" },
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
