/** Checks of values that settings and corp only store: the network of VMs, rules, detections. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { CorpCheck, CorpConfig } from "../../config/corp/mod.ts";
import { noProxyProblem } from "../../base/proxy/mod.ts";
import type { Contract } from "../../session/mod.ts";
import type { SettingValue, ValueCheck } from "../../config/settings/mod.ts";
import { corpLayer, requireGood } from "../contract.ts";

type NetworkValues = Contract["network"];

const NO_VALUES: NetworkValues = { resolvers: [], overrides: [] };

/**
 * The network values a setting provides. Empty paths and values of another type,
 * which are not used, provide none.
 */
const NETWORK: Record<string, (value: unknown) => Partial<NetworkValues>> = {
  "network.dns_resolvers": (value) => isTexts(value) ? { resolvers: value } : {},
  "network.upstream_overrides": (value) => isTexts(value) ? { overrides: value } : {},
  "network.upstream_proxy": (value) => isPath(value) ? { proxy: { url: value } } : {},
  "network.upstream_proxy_auth_file": (value) =>
    isPath(value) ? { proxy: { url: ANY_PROXY, auth_file: value } } : {},
  "network.upstream_proxy_auth_program": (value) =>
    isPath(value) ? { proxy: { url: ANY_PROXY, auth_program: value } } : {},
  "network.extra_ca_file": (value) => isPath(value) ? { extra_ca_file: value } : {},
  "network.model_price_file": (value) => isPath(value) ? { price_file: value } : {},
};

/** Proxy with which the file of its password is checked alone. */
const ANY_PROXY = "http://localhost";

const isPath = (value: unknown): value is string => typeof value === "string" && value !== "";
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string");

/**
 * Refuses values that a VM's network cannot be opened with. Loads nothing if no value is set.
 *
 * @throws {SbxError} as `readNetworkConfig`
 */
export async function requireNetwork(network: NetworkValues): Promise<void> {
  const { resolvers, overrides, extra_ca_file, price_file, proxy } = network;
  if (resolvers.length + overrides.length === 0 && !extra_ca_file && !price_file && !proxy) return;
  const { readNetworkConfig } = await import("../../session/network_config/mod.ts");
  await readNetworkConfig(network);
}

/** Describes the problem with a value of the right type. */
export const checkSetting: ValueCheck = async (id, value) => {
  if (id === "network.no_proxy") return isTexts(value) ? noProxyProblem(value) : undefined;
  const values = NETWORK[id]?.(value);
  if (values === undefined) return undefined;
  try {
    await requireNetwork({ ...NO_VALUES, ...values });
  } catch (error) {
    const { message, cause } = asSbxError(error, `checking ${id}`);
    const problem = message.startsWith(`${id}: `) ? message.slice(`${id}: `.length) : message;
    // The reader's own hint on the format; its caller's hint says where the setting is, which is known here.
    const hint = cause instanceof SbxError ? cause.hint : undefined;
    return hint === undefined ? problem : `${problem} (${hint})`;
  }
};

/**
 * Where a file that corp.toml names by an absolute path is now; `undefined`: elsewhere, and nothing checks
 * it. Its owner is asked for machines whose files are not here yet, such as a package's.
 */
export type FilePlace = (path: string) => string | undefined;

/** Settings whose value is the path of a file. */
const FILE_SETTINGS: ReadonlySet<string> = new Set([
  "network.extra_ca_file",
  "network.model_price_file",
  "network.upstream_proxy_auth_file",
  "network.upstream_proxy_auth_program",
]);

/**
 * Lists the problems of a corp.toml of the right shape: in its rules, its detections, and
 * values by {@linkcode checkSetting}.
 */
export const checkCorp: CorpCheck = corpCheck();

/** {@linkcode checkCorp} for machines whose files are at the given places. */
export function corpCheck(placeOf: FilePlace = (path) => path): CorpCheck {
  const inPlace = (path: string) => path.startsWith("/") ? placeOf(path) : path;
  return async (config, path) => {
    const problems: string[] = [];
    try {
      const corp = await corpLayer({ path, state: { status: "ok", config: withRuleFiles(config, inPlace) } });
      await requireGood({ corp, profile: NO_PROFILE });
    } catch (error) {
      problems.push(...asSbxError(error, `checking ${path}`).message.split("\n"));
    }
    for (const [id, { value }] of Object.entries(config.file.settings)) {
      const placed = FILE_SETTINGS.has(id) && isPath(value) ? inPlace(value) : value;
      if (placed === undefined) continue;
      const problem = await checkSetting(id, placed as SettingValue);
      const place = config.document.placeOf(["settings", id, "value"]);
      if (problem !== undefined) problems.push(`${place}: ${id}: ${problem}`);
    }
    return problems;
  };
}

function withRuleFiles(config: CorpConfig, inPlace: FilePlace): CorpConfig {
  const { enforcement, sigma, ...rest } = config.file.corp_rule_files;
  const [rules, pack] = [enforcement, sigma].map((path) => path === undefined ? undefined : inPlace(path));
  const corp_rule_files = { ...rest, ...(rules && { enforcement: rules }), ...(pack && { sigma: pack }) };
  return { ...config, file: { ...config.file, corp_rule_files } };
}

const NO_PROFILE: Contract["profile"] = { rules: [], packs: [], mcp: {}, providers: [] };
