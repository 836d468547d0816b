/** Values that neither settings nor corp can judge, because others read them: how a VM's network is set up, rules, detections. */
import type { CorpCheck } from "../corp/mod.ts";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Contract } from "../session/mod.ts";
import type { SettingValue, ValueCheck } from "../settings/mod.ts";
import { corpLayer, requireGood } from "./contract.ts";

type NetworkValues = Contract["network"];

const NOTHING_SET: NetworkValues = { resolvers: [], overrides: [] };

/** What a setting says of a network: an empty path nothing, and neither does a value of another type, which is not used. */
const NETWORK: Record<string, (value: unknown) => Partial<NetworkValues>> = {
  "network.dns_resolvers": (value) => isTexts(value) ? { resolvers: value } : {},
  "network.upstream_overrides": (value) => isTexts(value) ? { overrides: value } : {},
  "network.extra_ca_file": (value) => isPath(value) ? { extra_ca_file: value } : {},
  "network.model_price_file": (value) => isPath(value) ? { price_file: value } : {},
};

const isPath = (value: unknown): value is string => typeof value === "string" && value !== "";
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string");

/**
 * Refuses what a VM's network could not be opened with. Where nothing is set, nothing is loaded for it.
 *
 * @throws {SbxError} those of `readNetworkConfig`
 */
export async function requireNetwork(network: NetworkValues): Promise<void> {
  const { resolvers, overrides, extra_ca_file, price_file } = network;
  if (resolvers.length + overrides.length === 0 && !extra_ca_file && !price_file) return;
  const { readNetworkConfig } = await import("../session/files/network_config.ts");
  await readNetworkConfig(network);
}

/** What is wrong with a value of the right type. */
export const checkSetting: ValueCheck = async (id, value) => {
  const said = NETWORK[id]?.(value);
  if (said === undefined) return undefined;
  try {
    await requireNetwork({ ...NOTHING_SET, ...said });
  } catch (error) {
    const { message, cause } = asSbxError(error, `checking ${id}`);
    const what = message.startsWith(`${id}: `) ? message.slice(`${id}: `.length) : message;
    // What the reader itself says of how to write it; where it is set is known here.
    const how = cause instanceof SbxError ? cause.hint : undefined;
    return how === undefined ? what : `${what} (${how})`;
  }
};

/** What is wrong with a corp.toml of the right shape: its rules, its detections, and values that {@linkcode checkSetting} judges. */
export const checkCorp: CorpCheck = async (config, path) => {
  const problems: string[] = [];
  try {
    const corp = await corpLayer({ path, state: { status: "ok", config } });
    await requireGood({ corp, profile: NO_PROFILE, detection: NO_DETECTION });
  } catch (error) {
    problems.push(...asSbxError(error, `checking ${path}`).message.split("\n"));
  }
  for (const [id, { value }] of Object.entries(config.file.settings)) {
    if (value === undefined) continue;
    const wrong = await checkSetting(id, value as SettingValue);
    const place = config.document.placeOf(["settings", id, "value"]);
    if (wrong !== undefined) problems.push(`${place}: ${id}: ${wrong}`);
  }
  return problems;
};

const NO_PROFILE: Contract["profile"] = { rules: [], packs: [], mcp: {}, providers: [] };
const NO_DETECTION: Contract["detection"] = { user: [], runtime: [] };
