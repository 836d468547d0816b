/**
 * Names of files and targets of links that are dangerous on the host, and names
 * of files that look like secrets.
 */
export {
  endsSecretPath,
  foldedName,
  isDotGit,
  isSecretFolder,
  isSecretPart,
  looksSecret,
  nameProblem,
  SECRET_SEARCHED,
  secretPattern,
  targetProblem,
  waysToSecrets,
} from "./name.ts";
