/** Variables of a `devcontainer.json`: `${…}`. */

/** Values of the variables that have one in a VM. */
export interface Variables {
  containerWorkspaceFolder: string;
  localWorkspaceFolderBasename: string;
  devcontainerId: string;
  /** variables of the image; absent where the specification has none yet */
  containerEnv?: Record<string, string>;
}

/** Variables with a value of this host, which does not get into a VM. */
const OF_HOST = /\$\{(?:localEnv|env|localWorkspaceFolder)(?:[:}])/;

/**
 * Replaces variables. Unknown ones stay as they are: a shell may know them.
 *
 * @returns undefined where the text has a variable with a value of this host
 */
export function substitute(text: string, variables: Variables): string | undefined {
  if (hasHostVariable(text)) return undefined;
  const { containerWorkspaceFolder, containerEnv, ...plain } = variables;
  return text.replaceAll(/\$\{([^{}]*)\}/g, (written, content: string) => {
    const [name, key, fallback = ""] = content.split(":");
    if (name === "containerWorkspaceFolder") return containerWorkspaceFolder;
    if (name === "containerWorkspaceFolderBasename") return containerWorkspaceFolder.split("/").at(-1)!;
    if (name === "containerEnv" && key && containerEnv) {
      return Object.hasOwn(containerEnv, key) ? containerEnv[key] : fallback;
    }
    return Object.hasOwn(plain, name) ? plain[name as keyof typeof plain] : written;
  });
}

/** True for a text with a variable that has a value of this host. */
export function hasHostVariable(text: string): boolean {
  return OF_HOST.test(text);
}
