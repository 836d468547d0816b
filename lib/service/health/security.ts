/** The state of security in words and sums: of all VMs, of one, and the latest findings and refusals. */
import type { SecurityStatus, VmSecurityLatest, VmSecurityStatus } from "../../client/api/mod.ts";
import { summaryOf, type Vm } from "../vm/vm.ts";
import { withDeadline } from "./probe.ts";
import { PROBE_MS } from "./health.ts";
import type { ProfilesInForce } from "../contract/active_profiles.ts";
import { type IssueSources, listIssues } from "./issues.ts";

const LATEST = 20;

/** Parts of the service that this reads. */
export interface SecuritySources extends IssueSources {
  inForce: ProfilesInForce;
}

export class SecurityReport {
  readonly #sources: SecuritySources;

  constructor(sources: SecuritySources) {
    this.#sources = sources;
  }

  async service(): Promise<SecurityStatus> {
    const { registry, corp, home } = this.#sources;
    const { readMachineKey } = await import("../../release/signing/mod.ts");
    const [issues, key, vms] = await Promise.all([
      listIssues(this.#sources),
      readMachineKey(home).catch(() => undefined),
      Promise.all(registry.all().map((vm) => this.#standing(vm))),
    ]);
    return {
      ok: issues.length === 0,
      issues,
      corp: corp.state.status,
      machine_key: key?.id ?? null,
      vms,
    };
  }

  /** One VM with the sums of its record. */
  async of(vm: Vm): Promise<VmSecurityStatus> {
    const { readEvidence, readHeads } = await import("../../ledger/read/mod.ts");
    const standing = await this.#standing(vm);
    if (!await hasLedger(vm)) return { ...standing, ledger: null, evidence: null };
    const ledger = await readHeads(vm.paths.ledger);
    return { ...standing, ledger, evidence: await readEvidence(vm.paths.ledger, ledger) };
  }

  /** The latest findings and refusals of one VM. */
  async latest(vm: Vm): Promise<VmSecurityLatest> {
    if (!await hasLedger(vm)) return { findings: [], denied: [] };
    const { readLatest } = await import("../../ledger/read/mod.ts");
    const { findings, denied } = await readLatest(vm.paths.ledger, LATEST);
    return { findings: findings as unknown as VmSecurityLatest["findings"], denied };
  }

  async #standing(vm: Vm): Promise<SecurityStatus["vms"][number]> {
    const { inForce, supervisor } = this.#sources;
    const { id, name, status, profile_id, last_error } = summaryOf(vm, supervisor.hypervisor.features);
    const now = await withDeadline(inForce.of(vm), PROBE_MS).catch(() => undefined);
    return {
      id,
      name,
      status,
      profile_id,
      profile_revision: now?.revision ?? vm.record.profile_revision,
      outdated: now?.outdated ?? false,
      problems: [last_error, vm.problem].filter((problem) => problem !== undefined),
    };
  }
}

function hasLedger({ paths }: Vm): Promise<boolean> {
  return Deno.lstat(paths.ledger).then(() => true, () => false);
}
