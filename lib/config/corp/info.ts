import type { SbxError } from "../../base/error/mod.ts";
import type { CorpStore } from "./store.ts";

/** Answer of `GET /corp/info`. */
export interface CorpInfo {
  present: boolean;
  path: string;
  status: "absent" | "ok" | "last_good" | "closed";
  /** problems of the file */
  error?: string;
  /** state of the file, one sentence for people */
  summary: string;
  refresh_policy?: string;
  settings: { id: string; locked: boolean; hidden?: boolean; enabled?: boolean }[];
  mcp_servers: { id: string; name?: string; enabled: boolean }[];
  rule_count: number;
  rule_files: {
    enforcement?: string;
    sigma?: string;
    sigma_output_endpoint?: string;
    sigma_output_credential_ref?: string;
    sigma_output_user?: string;
    open_telemetry?: string;
    open_telemetry_credential_ref?: string;
    open_telemetry_user?: string;
  };
  release: {
    manifest_url?: string;
    channels_url?: string;
    channel?: string;
    hmac_key_file?: string;
    trust_file?: string;
  };
}

/** Describes the active corp configuration and the state of its file. */
export function corpInfo({ path, state }: Pick<CorpStore, "path" | "state">): CorpInfo {
  const file = "config" in state ? state.config.file : undefined;
  return {
    present: state.status !== "absent",
    path,
    status: state.status,
    ...("error" in state && { error: state.error.message }),
    summary: corpSummary({ path, state }),
    ...(file?.refresh_policy && { refresh_policy: file.refresh_policy }),
    settings: Object.entries(file?.settings ?? {}).map(([id, { value, hidden, enabled }]) => ({
      id,
      locked: value !== undefined,
      ...(hidden !== undefined && { hidden }),
      ...(enabled !== undefined && { enabled }),
    })),
    mcp_servers: Object.entries(file?.mcp ?? {}).map(([id, server]) => ({
      id,
      ...("name" in server && { name: server.name }),
      enabled: server.enabled,
    })),
    rule_count: Object.keys(file?.corp.rules ?? {}).length,
    rule_files: file?.corp_rule_files ?? {},
    release: file?.release ?? {},
  };
}

/** Describes the active configuration in one sentence; printed by `sbx status`. */
export function corpSummary({ path, state }: Pick<CorpStore, "path" | "state">): string {
  switch (state.status) {
    case "absent":
      return "no corp configuration";
    case "ok":
      return `${path} is active`;
    case "last_good":
      return `${path} ${trouble(state.error)}; the last good version stays active until it is corrected`;
    case "closed":
      return `${path} ${
        trouble(state.error)
      } and has no known good version; every setting is locked until it is corrected`;
  }
}

function trouble({ code }: SbxError): string {
  return code === "corp.not_found" ? "IS MISSING" : "IS BROKEN";
}
