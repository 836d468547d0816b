/**
 * Debian packages of sbx and of a company's settings for it, and apt repositories (docs/guides/packages.md).
 */
export { type Deb, type DebArch, debianVersion, writeDeb } from "./deb.ts";
export { ROLES, sbxDeb, type SbxParts } from "./sbx.ts";
export { runTool } from "./deb.ts";
export { type Repository, type RepositoryOptions, writeRepository } from "./repository.ts";
export { corpDeb, type CorpParts } from "./corp.ts";
export { nixExpression, pkgbuild, writeRpm, writeTarball } from "./elsewhere.ts";
