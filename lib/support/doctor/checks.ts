/**
 * Checks of a guest, with the words that the host prints. A guest reports states and
 * details only: advice is the host's.
 */

/** A check that every guest reports, or, with `optional`, one that depends on the programs of its image. */
export interface Check {
  title: string;
  /** printed below a failed check */
  remedy: string;
  optional?: true;
}

const trusted = (client: string, variable: string): Check => ({
  title: `${client} trusts the CA of this machine`,
  remedy:
    `unset ${variable} in the program's environment, or let it name /etc/sbx/ca.pem or a bundle that has it`,
  optional: true,
});

/** Checks by id, in the order of reports. */
export const CHECKS = {
  clock: {
    title: "clock",
    remedy: "sbx stop and sbx start set the clock again; check which program in the VM changes it",
  },
  mounts: {
    title: "mounts",
    remedy: "sbx logs shows the console of the boot; sbx stop and sbx start mount them again",
  },
  disk: {
    title: "disk",
    remedy: "remove files in the VM; space of /workspace is that of this machine's disk",
  },
  memory: {
    title: "memory",
    remedy: "end programs in the VM, or give it more: sbx create --ram, or [vm] ram_gb of its profile",
  },
  entropy: {
    title: "entropy",
    remedy: "sbx stop and sbx start give the kernel a new seed",
  },
  proxy: {
    title: "network proxy",
    remedy: "sbx status shows whether this machine gives the VM a network; sbx stop and sbx start restart it",
  },
  dns: {
    title: "DNS",
    remedy: "check this machine's resolver; in the VM, /etc/resolv.conf has to name the resolver of sbx",
  },
  "ca-curl": trusted("curl", "CURL_CA_BUNDLE"),
  "ca-python": trusted("Python", "SSL_CERT_FILE"),
  "ca-node": trusted("Node", "NODE_EXTRA_CA_CERTS"),
  "ca-git": trusted("git", "GIT_SSL_CAINFO"),
  "ca-deno": { ...trusted("Deno", "DENO_CERT"), optional: undefined },
  npm: {
    title: "npm",
    remedy: "sbx image build PROFILE builds an image whose npm has the headers of its Node",
    optional: true,
  },
  mcp: {
    title: "MCP endpoint",
    remedy: "sbx mcp servers lists the servers and their errors; sbx stop and sbx start restart the VM",
  },
  activity: {
    title: "activity",
    remedy: "sbx stop and sbx start restart it; without it the record lacks programs and files of the VM",
  },
} satisfies Record<string, Check>;

export type CheckId = keyof typeof CHECKS;
export const CHECK_IDS = Object.keys(CHECKS) as CheckId[];

export type CheckState = "ok" | "failed" | "skipped";

/** Result of one check. */
export interface CheckResult {
  id: CheckId;
  state: CheckState;
  /** the observation, on one line */
  detail: string;
}

/** Output of `sbx-doctor --json`. */
export interface GuestReport {
  schema: "sbx.guest-doctor.v1";
  /** the guest's clock when it printed this, in `ms` */
  unix_ms: number;
  checks: CheckResult[];
}

/** Most characters of a detail. */
export const DETAIL_MAX = 300;

const MARKS: Record<CheckState, string> = { ok: "✓", failed: "✗", skipped: "–" };

/** One line: `✓ disk: / 3.1 of 4.0 GiB free`. */
export function checkLine({ state, detail }: Pick<CheckResult, "state" | "detail">, title: string): string {
  return `${MARKS[state]} ${title}${detail === "" ? "" : `: ${detail}`}`;
}
