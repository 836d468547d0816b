/**
 * Environments: root file systems made of OCI images, with their records, in one
 * home (docs/guides/environments.md)
 */
export {
  CONFLICTS_MAX,
  DEVCONTAINER_COMMANDS,
  type DevcontainerCommand,
  DevcontainerSettings,
  Environment,
  ENVIRONMENT_KEY,
  EnvironmentConfig,
  EnvironmentName,
} from "./schema.ts";
export { imagePorts, imageProgram } from "./program.ts";
export { parseReference, type Reference } from "./reference.ts";
export {
  blobPath,
  buildName,
  diskBytes,
  environmentFiles,
  environmentKey,
  environmentNames,
  environmentsDir,
  findEnvironment,
  type FreedEnvironments,
  getEnvironment,
  holdingEnvironment,
  installEnvironment,
  isBuildName,
  isCurrentFormat,
  keepingEnvironments,
  layersDir,
  listEnvironments,
  makeWorkFolder,
  nameEnvironment,
  noteSignature,
  removeEnvironments,
  requireKept,
} from "./store.ts";
