/** Names of files and targets of links that are dangerous on the host, and names of files that look like secrets. */
export { isDotGit, nameProblem, targetProblem } from "./dangerous.ts";
export { isSecretFolder, looksSecret, SECRET_SEARCHED, secretPattern } from "./secret.ts";
