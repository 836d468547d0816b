/** Reads a folder's project file: once, so that a person sees the bytes that hold. */
import { Buffer } from "node:buffer";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { checkToml, parseToml } from "../../base/toml/mod.ts";
import { compileLayers, PROJECT_FILE } from "../../policy/mod.ts";
import type { NarrowingRules } from "../../policy/author/schema.ts";
import { ProjectFile } from "./schema.ts";

/** Most `bytes` of a project file (docs/design/contracts/14-limits.md §14). */
const FILE_MAX = 64 * 1024;

/** Packages that a project file asks for. */
export interface ProjectPackages {
  apt: string[];
  /** each with its version */
  npm: string[];
}

/** A folder's project file. */
export interface Project {
  /** real path of the folder */
  dir: string;
  /** user id of the folder's owner; `null` where the system has none */
  owner: number | null;
  text: string;
  /** SHA-256 of the file's bytes, in hex */
  sha256: string;
  rules: NarrowingRules;
  env: Record<string, string>;
  vm: { cpus?: number; ram_gb?: number; disk_gb?: number };
  /** id of the profile of a VM that no command names one for */
  profile?: string;
  /** id of the agent of `sbx agent` that names none */
  agent?: string;
  /** of the VM */
  ports: number[];
  /** to install in the VM */
  packages: ProjectPackages;
}

/**
 * Reads the project file of a folder.
 *
 * @returns undefined: it has none
 * @throws {SbxError} `project.invalid`: with the line
 */
export async function readProject(folder: string): Promise<Project | undefined> {
  let dir: string;
  let owner: number | null;
  try {
    dir = await Deno.realPath(folder);
    owner = (await Deno.stat(dir)).uid;
  } catch (cause) {
    throw new SbxError("project.invalid", `${folder} cannot be read`, { cause, hint: "name a folder" });
  }
  const path = join(dir, PROJECT_FILE);
  const bytes = await readOnce(path);
  if (!bytes) return undefined;
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const document = parseToml(text, path);
    const { rules: tables, profile, agent, ...rest } = checkToml(document, ProjectFile, "project.invalid");
    const rules = Object.entries(tables).map(([id, table]) => ({
      ...table,
      id,
      line: document.positionOf(["rules", id]).line,
    }));
    compileLayers({ corp: { rules: [] }, profile: { rules: [] }, project: rules });
    return {
      dir,
      owner,
      text,
      sha256,
      rules,
      ...rest,
      ...profile !== undefined && { profile },
      ...agent !== undefined && { agent },
    };
  } catch (cause) {
    const reason = cause instanceof SbxError ? cause.message : `${path}: invalid UTF-8`;
    throw new SbxError("project.invalid", reason, { cause, hint: `correct it, or remove ${PROJECT_FILE}` });
  }
}

/** Parts that wait for a person, a line each. */
export function widenings(
  { env, vm, profile, agent, ports, packages }: Pick<
    Project,
    "env" | "vm" | "profile" | "agent" | "ports" | "packages"
  >,
): string[] {
  return [
    ...profile === undefined ? [] : [`profile = ${profile}`],
    ...agent === undefined ? [] : [`agent = ${agent}`],
    ...packages.apt.map((name) => `Debian package ${name}`),
    ...packages.npm.map((name) => `npm package ${name}`),
    ...ports.map((port) => `port ${port} of the VM on this host's loopback`),
    ...Object.entries(vm).map(([name, value]) => `vm.${name} = ${value}`),
    ...Object.entries(env).map(([name, value]) => `env.${name} = ${JSON.stringify(value)}`),
  ];
}

/** Opens without following a link or waiting for a pipe, and reads at most {@linkcode FILE_MAX}. */
async function readOnce(path: string): Promise<Uint8Array | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const refuse = (problem: string, cause?: unknown) =>
    new SbxError("project.invalid", `${path}: ${problem}`, { cause, hint: `remove ${path}` });
  let file;
  try {
    file = await open(path, flags);
  } catch (cause) {
    const { code } = cause as { code?: string };
    if (code === "ENOENT") return undefined;
    throw refuse(code === "ELOOP" ? "it is a link, and no link is followed" : "it cannot be read", cause);
  }
  try {
    if (!(await file.stat()).isFile()) throw refuse("it is not a file");
    const buffer = Buffer.alloc(FILE_MAX + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
      length += bytesRead;
      if (bytesRead === 0 || length === buffer.length) break;
    }
    if (length > FILE_MAX) throw refuse(`it is larger than ${FILE_MAX} bytes`);
    return buffer.subarray(0, length);
  } finally {
    await file.close();
  }
}
