/** Files that describe a VM on disk: its record, its last state, and the files it boots from. */
import { ARCHES, currentArch } from "../../base/arch/mod.ts";
import { z } from "zod";
import { writeAtomic } from "../../base/home/mod.ts";
import { deviceName, userName } from "../../base/user/mod.ts";
import { DevcontainerSettings, ImageProgram } from "../../release/environment/schema.ts";
import { VmLimits } from "../../machine/limit/schema.ts";
import { LiveRecord } from "../../machine/live/schema.ts";
import { LastEvent, MachineInfo, McpNeed } from "../ipc/schema.ts";
import type { VmPaths } from "./paths.ts";
import { SbxError } from "../../base/error/mod.ts";

/** The VM that another one works for, and the stdio MCP server whose program runs in that other one. */
export const VmParent = z.strictObject({ id: z.uuid(), ...McpNeed.shape });
export type VmParent = z.infer<typeof VmParent>;

/** The VM that another one is a copy of, and the last event of its session before that. */
export const ForkedFrom = z.strictObject({
  session: z.uuid(),
  event: LastEvent.optional().describe("absent: it had none"),
});
export type ForkedFrom = z.infer<typeof ForkedFrom>;

/** User and machine of a VM, and the program that asked for it, as that named itself. */
export const MadeBy = z.strictObject({ user: z.string(), device: z.string(), client: z.string() });
export type MadeBy = z.infer<typeof MadeBy>;

/** The maker of a VM. @param client absent: the service, such as for an MCP server */
export function madeBy(client = "sbx-service"): MadeBy {
  return { user: userName(), device: deviceName(), client };
}

/**
 * Abilities of a machine beside processors, memory and disk: programs of x86_64 in a guest of arm64, nested
 * machines, and user namespaces without root.
 */
export const MachineAbility = z.enum(["rosetta", "nested", "user_namespaces"]);
export type MachineAbility = z.infer<typeof MachineAbility>;

/** A VM on disk: enough for its process to boot it and for a restarted service to find it again. */
export const VmRecord = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  profile_id: z.string(),
  profile_revision: z.string(),
  created_at: z.iso.datetime(),
  made_by: MadeBy.optional().describe("absent in records of an older sbx"),
  asked: z.strictObject({ key: z.string(), digest: z.string() }).optional().describe(
    "key and hash of the request that made it, if it may come again",
  ),
  persistent: z.boolean(),
  cpus: z.int(),
  ram_mb: z.int(),
  scratch_gb: z.int().describe("0: the guest's writes stay in its memory"),
  env: z.record(z.string(), z.string()),
  files: z.array(z.strictObject({ path: z.string(), content: z.string(), mode: z.int() })),
  parent: VmParent.optional().describe("absent: a VM of its own"),
  forked_from: ForkedFrom.optional().describe("absent: it is no copy"),
  abilities: z.array(MachineAbility).optional().describe("absent: none"),
  limits: VmLimits.optional().describe("absent: none"),
  live: LiveRecord.optional().describe("absent: no folder of the host"),
  environment: z.strictObject({
    key: z.string(),
    reference: z.string(),
    digest: z.string(),
    workdir: z.string().optional(),
    user: z.string().optional(),
    program: ImageProgram.optional().describe("its own program, which the service image runs"),
    ports: z.array(z.int()).optional().describe("TCP ports that it names"),
  }).optional().describe("OCI image that is its root file system; absent: an image of packages"),
  before: z.strictObject({
    key: z.string(),
    reference: z.string(),
    digest: z.string(),
  }).partial().optional().describe(
    "image that it can go back to: absent, none; without a key, the image of its profile's packages",
  ),
  agent: z.string().optional().describe("profile of the agent that works in it; absent: unknown"),
  credentials: z.record(z.string(), z.string()).optional().describe(
    "labels of the keys that it was made with, by provider; absent: its profile's choice",
  ),
  devcontainer: DevcontainerSettings.optional().describe("settings of a devcontainer.json; absent: none"),
  assets: z.strictObject({
    version: z.string(),
    arch: z.enum(ARCHES).default(currentArch).describe("absent in records of an older sbx: this machine's"),
    image: z.string().optional().describe("profile whose image it is; absent: of pinned or unnamed assets"),
    kernel: z.string(),
    initrd: z.string(),
    rootfs: z.string(),
    layer: z.string().optional().describe("absent: the root file system has the programs of sbx"),
    before: z.string().optional().describe("root file system of before, which this machine compares with"),
    hashes: z.record(z.string(), z.string()).optional().describe(
      "BLAKE3 of each file and of the OBOM by logical name; absent in records of an older sbx",
    ),
  }),
});
export type VmRecord = z.infer<typeof VmRecord>;

/** @throws {SbxError} `session.record`: missing, damaged, or with a field that is wrong */
export async function readRecord({ record }: Pick<VmPaths, "record">): Promise<VmRecord> {
  return await readJson(record, VmRecord, {
    code: "session.record",
    what: "VM record",
    hint: "sbx delete NAME removes the VM",
  });
}

export async function writeRecord(paths: Pick<VmPaths, "record">, record: VmRecord): Promise<void> {
  await writeAtomic(paths.record, JSON.stringify(record, null, 2) + "\n");
}

/**
 * Reads the last state that the VM's process wrote; the service writes one only after that process has ended.
 *
 * @returns undefined for a VM that never had a state
 * @throws {SbxError} `session.state`: damaged, or with a field that is wrong
 */
export async function readState({ state }: Pick<VmPaths, "state">): Promise<MachineInfo | undefined> {
  const exists = await Deno.lstat(state).then(() => true, () => false);
  if (!exists) return undefined;
  return await readJson(state, MachineInfo, {
    code: "session.state",
    what: "VM state",
    hint: "sbx start boots the VM again",
  });
}

export async function writeState(paths: Pick<VmPaths, "state">, state: MachineInfo): Promise<void> {
  await writeAtomic(paths.state, JSON.stringify(state) + "\n");
}

/** Words of the error about a file that is unusable. */
export interface FileError {
  code: string;
  /** content of the file, such as `contract` */
  what: string;
  hint: string;
}

/**
 * Reads a JSON file against a strict schema.
 *
 * @throws {SbxError} `error.code`: the file is missing, not JSON, or has an unknown, missing
 * or wrong field, which is named
 */
export async function readJson<S extends z.ZodType>(
  path: string,
  schema: S,
  error: FileError,
): Promise<z.output<S>> {
  const { code, what, hint } = error;
  let value: unknown;
  try {
    value = JSON.parse(await Deno.readTextFile(path));
  } catch (cause) {
    const problem = cause instanceof SyntaxError ? "is not JSON" : "cannot be read";
    throw new SbxError(code, `the ${what} ${path} ${problem}`, { cause, hint });
  }
  return await checkJson(value, path, schema, error);
}

/** @throws {SbxError} `error.code`: an unknown, missing or wrong field, which is named */
export async function checkJson<S extends z.ZodType>(
  value: unknown,
  path: string,
  schema: S,
  { code, what, hint }: FileError,
): Promise<z.output<S>> {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const { describeIssue, pathText } = await import("../../base/toml/mod.ts");
  const [problem] = error.issues.flatMap((issue) => describeIssue(issue, schema));
  const place = problem.path.length > 0 ? `${pathText(problem.path)}: ` : "";
  const message = problem.message.replace("must be a table", "must be an object");
  throw new SbxError(code, `the ${what} ${path} is invalid: ${place}${message}`, { cause: error, hint });
}

/** The part of a VM's record that names the files it boots from. */
export interface BootRecord {
  assets: Pick<VmRecord["assets"], "kernel" | "initrd" | "rootfs" | "layer" | "before">;
}

/** Paths of the files that a VM boots from. */
export function bootPaths({ assets: { kernel, initrd, rootfs, layer, before } }: BootRecord): string[] {
  return [kernel, initrd, rootfs, layer, before].filter((path) => path !== undefined);
}
