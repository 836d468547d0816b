/**
 * Configuration and updates of one home, for the service and programs beside it: VM terms, network, updates.
 */
export {
  type ChannelUpdate,
  installOffered,
  updateFromChannel,
  updatePins,
  updateProgram,
} from "./channel_update.ts";
export {
  cacheLimits,
  type ContractSources,
  corpFiles,
  corpLayer,
  ledgerOf,
  LOGIN_SETTING,
  makeContract,
  networkOf,
  profileLayer,
  profileProblems,
  requireGood,
  snapshotLimits,
} from "./contract.ts";
export { Detections } from "./contract.ts";
export { descriptorsOf, fieldProblems } from "./descriptors.ts";
export { corpInForce } from "./corp_in_force.ts";
export { checkBundle, FleetBundles } from "./fleet_bundles.ts";
export { openCorp, useNetworkOf } from "./channel_update.ts";
export { updateAll, type UpdateReport, type UpdateResult } from "./update_all.ts";
