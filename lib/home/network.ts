/** The host's network for programs beside the service, by the same settings and locks. */
import type { Home } from "../base/home/mod.ts";
import { corpPlaces, CorpStore } from "../config/corp/mod.ts";
import { bundleLayer } from "../fleet/layer/mod.ts";
import { useHostNetwork } from "../base/proxy/mod.ts";
import { loadDefinitions, SettingsStore } from "../config/settings/mod.ts";
import { networkOf } from "./contract.ts";
import { checkCorp, checkSetting } from "./value_check/mod.ts";

/**
 * The store of corp's configuration, joined with the fleet's bundle. Every program opens it so: one with fewer checks would
 * keep a broken file as the last good one.
 */
export function openCorp(home: Home): CorpStore {
  return new CorpStore(home, corpPlaces(), checkCorp, bundleLayer(home));
}

/** Activates a home's proxy and certificate authorities for this process. @returns the corp configuration */
export async function useNetworkOf(home: Home): Promise<CorpStore> {
  const corp = openCorp(home);
  const settings = await SettingsStore.open({
    home,
    corp,
    definitions: await loadDefinitions(),
    check: checkSetting,
  });
  useHostNetwork(networkOf(settings));
  return corp;
}
