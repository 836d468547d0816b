/** Images from Dockerfiles, built by buildah in a governed VM of the profile `builder` */
export { baseReferences, featureReferences } from "./bases.ts";
export type { Base } from "./build.ts";
export { buildKey, type Context, type Features, isBelow, readContext, readFiles } from "./context.ts";
export {
  BUILD_STAGES,
  type BuildPlan,
  type BuildVm,
  buildVmName,
  findBuild,
  runBuild,
  tagReference,
} from "./build.ts";
export { type Login, parseLogin, parseSecret, type Secret } from "./secret.ts";
