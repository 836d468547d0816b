/** The settings of a VM: of a `devcontainer.json`, merged with the metadata of its image. */
import { createHash } from "node:crypto";
import { basename, posix, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { COMMANDS_PATH, isForbiddenVariable } from "../../machine/guest/wire/mod.ts";
import { DevcontainerSettings, type EnvironmentConfig } from "../../release/environment/mod.ts";
import type { Devcontainer } from "./file.ts";
import { FILE_ORIGIN, type Lifecycle, merge, type Merged, mountOf, readLabel } from "./properties.ts";
import { hasHostVariable, substitute, type Variables } from "./variables.ts";

const MIB = 1024 ** 2, GIB = 1024 ** 3;
/** The workspace of every VM, which holds files of sbx, too. */
const VM_WORKSPACE = "/workspace";
/** Name of a user or a group, or its number. */
const USER = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/;

/** The VM of a devcontainer. */
export interface DevcontainerPlan {
  settings: DevcontainerSettings;
  /** folder that the files go to */
  place: string;
  /** variables of the VM */
  env: Record<string, string>;
  /** asked size; absent parts are not asked for */
  size: { cpus?: number; ram_mb?: number; disk_gb?: number };
  /** fields without effect, in words for people */
  leftOut: string[];
}

/**
 * Makes the plan of a VM.
 *
 * @param dir the folder that the VM gets
 * @param image configuration of the image that the VM boots
 * @param to place of the files that the person chose
 * @throws {SbxError} `devcontainer.invalid`
 */
export function planDevcontainer(
  file: Devcontainer,
  { dir, image, to }: { dir: string; image: EnvironmentConfig; to?: string },
): DevcontainerPlan {
  const label = readLabel(image.devcontainer);
  const merged = merge([...label.entries, { origin: FILE_ORIGIN, properties: file.properties }]);
  const leftOut = [...file.leftOut, ...label.leftOut];
  const names = {
    localWorkspaceFolderBasename: basename(resolve(dir)),
    devcontainerId: createHash("sha256").update(resolve(dir)).digest("hex").slice(0, 52),
  };
  const { place, folder } = foldersOf(file, { ...names, containerWorkspaceFolder: "" }, leftOut, to);
  const early: Variables = { ...names, containerWorkspaceFolder: folder };
  const containerEnv = replaced(merged.containerEnv, "containerEnv", early, leftOut);
  const late: Variables = { ...early, containerEnv: { ...image.env, ...containerEnv } };
  const unset = Object.entries(merged.remoteEnv).flatMap(([name, value]) => value === null ? [name] : []);
  leftOut.push(...unset.map((name) => `remoteEnv.${name}`));
  const remote = Object.entries(merged.remoteEnv).filter((pair): pair is [string, string] =>
    pair[1] !== null
  );
  const remoteEnv = replaced(Object.fromEntries(remote), "remoteEnv", late, leftOut);
  const user = merged.remoteUser ?? merged.containerUser ?? image.user;
  if (user !== undefined && !USER.test(user)) throw invalid(file, `"${user}" is not a name of a user`);
  const { cpus, memory, storage } = merged.requirements;
  const settings = {
    user,
    folder,
    volumes: volumesOf(merged, late, leftOut),
    commands: commandsOf(merged, late, leftOut),
    ports: portsOf(merged, leftOut),
  };
  const parsed = DevcontainerSettings.safeParse(settings);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalid(file, `${issue.path.join(".")}: ${issue.message}`);
  }
  return {
    settings: parsed.data,
    place,
    env: usable({ ...containerEnv, ...remoteEnv }, leftOut),
    size: {
      ...cpus > 0 && { cpus },
      ...memory > 0 && { ram_mb: Math.ceil(memory / MIB) },
      ...storage > 0 && { disk_gb: Math.ceil(storage / GIB) },
    },
    leftOut: [...new Set(leftOut.map((each) => plain(each)))],
  };
}

/** The folder that the files go to, and the one to work in, which is there or below. */
function foldersOf(
  file: Devcontainer,
  names: Variables,
  leftOut: string[],
  to: string | undefined,
): { place: string; folder: string } {
  const path = (text: string, field: string) => {
    const value = substitute(text, names);
    if (value === undefined || !value.startsWith("/") || value.split("/").includes("..")) {
      throw invalid(file, `${field} is not an absolute path of a VM: ${text}`);
    }
    return posix.normalize(value).replace(/(?<=.)\/$/, "");
  };
  const { workspaceFolder, workspaceMount } = file;
  const named = workspaceFolder === undefined ? undefined : path(workspaceFolder, "workspaceFolder");
  const target = workspaceMount ? mountOf(workspaceMount).target : "";
  const mounted = target === "" ? undefined : path(target, "workspaceMount");
  if (to !== undefined) return { place: to, folder: to };
  const safe = names.localWorkspaceFolderBasename.replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "");
  const usual = `/workspaces/${safe || "folder"}`;
  const place = mounted ?? named ?? usual;
  const isWithin = named === undefined || named === place || named.startsWith(`${place}/`);
  const folder = isWithin ? named ?? place : place;
  if (!isWithin) leftOut.push("workspaceFolder, which is outside of the mounted folder");
  if (place !== "/" && place !== VM_WORKSPACE) return { place, folder };
  leftOut.push(`workspaceFolder ${place}: the files are in ${usual}`);
  return { place: usual, folder: posix.join(usual, posix.relative(place, folder)) };
}

function replaced(
  values: Record<string, string>,
  field: string,
  variables: Variables,
  leftOut: string[],
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, text]) => {
      const value = substitute(text, variables);
      // A program would get the text itself.
      if (value !== undefined && !value.includes("${")) return [[name, value]];
      leftOut.push(`${field}.${name}`);
      return [];
    }),
  );
}

/** Variables that a VM may have; sbx's own commands stay the first ones. */
function usable(env: Record<string, string>, leftOut: string[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => {
      if (isForbiddenVariable(name)) leftOut.push(`the variable ${name}`);
      else return [[name, name === "PATH" ? `${COMMANDS_PATH}:${value}` : value]];
      return [];
    }),
  );
}

function commandsOf(
  { commands }: Merged,
  variables: Variables,
  leftOut: string[],
): DevcontainerSettings["commands"] {
  const made = commands.flatMap(({ name, origin, value }) => {
    const run = entriesOf(value).flatMap(([part, command]) => {
      const words = typeof command === "string" ? [command] : command;
      const texts = words.map((word) => substitute(word, variables));
      if (texts.includes(undefined)) {
        leftOut.push(`${part ? `${name}.${part}` : name} with a value of this host`);
        return [];
      }
      if (words.every((word) => word.trim() === "")) return [];
      const replaced = texts as string[];
      return [{
        ...part && { name: plain(part) },
        command: typeof command === "string" ? replaced[0] : replaced,
      }];
    });
    return run.length > 0 ? [{ name, origin: plain(origin), run }] : [];
  });
  return made.length > 0 ? made : undefined;
}

/** Named commands run at the same time; one command has no name. */
function entriesOf(value: Lifecycle): [name: string | undefined, command: string | string[]][] {
  return typeof value === "string" || Array.isArray(value) ? [[undefined, value]] : Object.entries(value);
}

function portsOf({ forwardPorts, labels }: Merged, leftOut: string[]): DevcontainerSettings["ports"] {
  const ports = forwardPorts.flatMap((port) => {
    if (typeof port === "number") {
      const label = labelOf(port, labels);
      return [{ port, ...label && { label: plain(label.slice(0, 256)) } }];
    }
    leftOut.push(`forwardPorts ${port}: only ports of the VM itself`);
    return [];
  });
  return ports.length > 0 ? ports : undefined;
}

/** Attributes are for a port, or for a range such as `3000-3010`. */
function labelOf(port: number, labels: Record<string, string>): string | undefined {
  return Object.entries(labels).find(([ports]) => {
    const [, first, last = first] = /^(?:localhost:)?(\d+)(?:-(\d+))?$/.exec(ports) ?? [];
    return Number(first) <= port && port <= Number(last);
  })?.[1];
}

function volumesOf({ mounts }: Merged, variables: Variables, leftOut: string[]): string[] | undefined {
  const volumes = mounts.flatMap(({ type, source, target }) => {
    const path = substitute(target, variables);
    if (type === "volume" && path?.startsWith("/") && !path.split("/").includes("..")) {
      return [posix.normalize(path)];
    }
    const from = source === undefined || hasHostVariable(source) ? "" : ` of ${source}`;
    leftOut.push(type === "bind" ? `mounts: no folder of this host${from}` : `mounts: ${type} at ${target}`);
    return [];
  });
  return volumes.length > 0 ? volumes : undefined;
}

function invalid({ path }: Devcontainer, problem: string): SbxError {
  return new SbxError("devcontainer.invalid", `${path} cannot be used: ${problem}`, {
    hint: "containers.dev/implementors/json_reference describes its fields",
  });
}
