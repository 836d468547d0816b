/** Names of files and targets of links that are dangerous on the host, and names of files that look like secrets. */
export { foldedName, isDotGit, nameProblem, targetProblem } from "./dangerous.ts";
export {
  endsSecretPath,
  isSecretFolder,
  isSecretPart,
  looksSecret,
  SECRET_SEARCHED,
  secretPattern,
  waysToSecrets,
} from "./secret.ts";
