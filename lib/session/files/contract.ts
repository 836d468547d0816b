/**
 * What holds in one session: the service writes it beside the VM's record, made of the profile that the VM was booted
 * with and of corp as it is now; the VM's process reads it at its boot and whenever it is told to. So no process of a
 * VM reads profiles, corp files or settings, and what it works with outlives the service.
 */
import type { DetectionIr } from "../../detection/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/atomic.ts";
import type { CorpMcp } from "../../mcp/mod.ts";
import type { Rule } from "../../policy/mod.ts";
import type { Provider } from "../../credential/mod.ts";
import type { McpServers } from "../../profile/mcp.ts";
import type { SessionPaths } from "./paths.ts";

/** What a VM does when its ledger cannot be written: it is paused, or everything that needs a record is refused. */
export type OnFull = "pause" | "block";

/** What one layer of trust brings. */
export interface ContractLayer<Mcp> {
  rules: Rule[];
  packs: DetectionIr[];
  mcp: Mcp;
}

/** Everything that a VM's process needs to govern its guest. */
export interface Contract {
  /** as it was when the VM booted, or was refreshed last (contracts.md §4) */
  profile: ContractLayer<McpServers> & {
    /** whose credentials its VMs may use */
    providers: Provider[];
  };
  /** as it is now */
  corp: ContractLayer<CorpMcp>;
  /** detections of the user's own, and those that were put in at run time */
  detection: { user: DetectionIr[]; runtime: DetectionIr[] };
  network: {
    /** `address` or `address:port`; none: the host's own */
    resolvers: string[];
    /** `name=address:port` */
    overrides: string[];
    /** PEM file of further authorities */
    extra_ca_file?: string;
    /** JSON, what models cost; none: the built-in one */
    price_file?: string;
  };
  ledger: {
    on_full: OnFull;
    /** bytes; absent: what the disk holds */
    max_bytes?: number;
    /** where events are collected, and the file that holds the token for it */
    url?: string;
    auth_token_file?: string;
  };
}

/** Every detection of a session. */
export function detectionsOf(
  { corp, profile, detection }: Pick<Contract, "corp" | "profile" | "detection">,
): DetectionIr[] {
  return [...corp.packs, ...profile.packs, ...detection.user, ...detection.runtime];
}

/** @throws {SbxError} `session.contract`: nothing runs without one */
export async function readContract({ contract }: Pick<SessionPaths, "contract">): Promise<Contract> {
  try {
    return JSON.parse(await Deno.readTextFile(contract)) as Contract;
  } catch (cause) {
    throw new SbxError("session.contract", `${contract}: what holds in this session cannot be read`, {
      cause,
      hint: "stop the VM and start it again: that writes it anew",
    });
  }
}

export async function writeContract(
  { contract }: Pick<SessionPaths, "contract">,
  content: Contract,
): Promise<void> {
  await writeAtomic(contract, JSON.stringify(content) + "\n");
}
