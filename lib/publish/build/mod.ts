/** Images from Dockerfiles, built by buildah in a governed VM of the profile `builder` */
export { buildKey, type Context, readContext } from "./context.ts";
export {
  BUILD_STAGES,
  type BuildPlan,
  type BuildVm,
  buildVmName,
  findBuild,
  runBuild,
  tagReference,
} from "./build.ts";
export { type Devcontainer, findDevcontainer, readDevcontainer } from "./devcontainer.ts";
export { parseSecret, type Secret } from "./secret.ts";
