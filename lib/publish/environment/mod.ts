/** Environments from OCI images: pulled by digest, checked, and unpacked to root file systems without root */
export {
  ENVIRONMENT_STAGES,
  type EnvironmentOptions,
  type MadeEnvironment,
  makeEnvironment,
  verifyImage,
} from "./build.ts";
export { findLogin, type HostLogin } from "./docker_config.ts";
export { CONFIG_MAX, DOWNLOAD_MAX, LAYERS_MAX, MANIFEST_MAX, SPARE_BYTES } from "./pull.ts";
export type { Signers, VerifiedSignature } from "./signature.ts";
export { type Layer, unpackLayers, type UnpackOptions } from "./unpack.ts";
