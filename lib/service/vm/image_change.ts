/**
 * Another image below the changes of a VM that has ended (docs/design/contracts/02-http.md §2): the
 * overlay's lower layer is replaced, its upper layer is the VM's disk. `asked.json` decides which image the
 * VM has: it is written at once.
 */
import { join } from "node:path";
import { ImageConflicts, type SetRequest } from "../../client/api/mod.ts";
import { asSbxError, ifFound, SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { COMMANDS_PATH } from "../../machine/guest/wire/mod.ts";
import {
  CONFLICTS_MAX,
  findEnvironment,
  getEnvironment,
  isCurrentFormat,
  parseReference,
} from "../../release/environment/mod.ts";
import { type VmPaths, type VmRecord, writeRecord } from "../../session/mod.ts";
import { execBuffered } from "../run/exec.ts";
import { environmentRecord, imageOfBefore, readRequest, type VmRequest, writeRequest } from "./boot.ts";
import type { Vm } from "./vm.ts";

const PROGRAM = "sbx-conflicts";
/** Longest comparison in a guest, in seconds. */
const COMPARE_SECS = timeLimit(300);
/** The shell's exit codes for a program that cannot be run, and for an unknown name. */
const NOT_RUN = [126, 127];
/** Files in which package managers keep their packages. */
const PACKAGE_LISTS =
  /^\/(var\/lib\/dpkg\/(status|status\.d\/.*|info\/.*)|lib\/apk\/db\/.*|var\/lib\/rpm\/.*|usr\/lib\/sysimage\/rpm\/.*)$/;
/** A line of the guest's program. */
const LINE = /^(changed|added|removed|deleted|replaced) (\/[A-Za-z0-9_.\/+,:=@~%-]{1,12288})$/;

/**
 * The request of a VM with another image, which this home has.
 *
 * @returns the same where the VM has that image already
 * @throws {SbxError} `image.missing` (412); `image.no_undo` (409): there is none to go back to
 */
export async function withImage(
  home: Home,
  { record }: Pick<Vm, "record">,
  request: VmRequest,
  { image, undo_image }: Pick<SetRequest, "image" | "undo_image">,
): Promise<VmRequest> {
  const { before: last } = request;
  if (undo_image && !last) {
    throw new SbxError("image.no_undo", `"${record.name}" has had no other image`, {
      hint: `sbx set ${record.name} --image IMAGE gives it one`,
    });
  }
  const canonical = image === undefined ? last?.image : parseReference(image).canonical;
  const key = image === undefined ? last?.environment : await keyOf(home, record, canonical!);
  const own = request.environment ?? record.environment?.key;
  if (key === own) return request;
  // The disk's changes were made on the image that was booted last, however often it was replaced since.
  const rootfs = record.scratch_gb > 0 ? record.assets.rootfs : undefined;
  const before = { image: request.image ?? record.environment?.reference, environment: own, rootfs };
  return { ...request, image: canonical, environment: key, before };
}

async function keyOf(home: Home, { assets }: VmRecord, canonical: string): Promise<string> {
  const found = await findEnvironment(home, canonical, assets.arch);
  const hint = `pull it: sbx image pull ${canonical}`;
  if (!found) {
    throw new SbxError("image.missing", `this home does not have the image ${canonical} for ${assets.arch}`, {
      hint,
    });
  }
  if (isCurrentFormat(found)) return found.key;
  // Its file system has the UUID of every other one: an overlay would take files
  // of one for files of the other.
  throw new SbxError("image.missing", `the image ${canonical} was made by an older sbx`, {
    hint: `${hint}, or build it again`,
  });
}

/** The part of a VM's record that says which image it has, as its request names it. */
export async function imageRecord(
  home: Home,
  { image, environment: key, before }: VmRequest,
): Promise<Pick<VmRecord, "environment" | "before">> {
  const found = key === undefined ? undefined : await getEnvironment(home, key);
  return {
    environment: found && environmentRecord({ ...found, reference: image ?? found.reference }),
    before: before && await imageOfBefore(home, before),
  };
}

/**
 * Completes the record of a VM without a process, whose image was replaced by a service that ended just then.
 */
export async function finishChange(home: Home, paths: VmPaths, record: VmRecord): Promise<VmRecord> {
  if (await ifFound(Deno.stat(join(paths.dir, "asked.json"))) === undefined) return record;
  const request = await readRequest(paths, record);
  if (!request.before || request.environment === record.environment?.key) return record;
  try {
    const finished = { ...record, ...await imageRecord(home, request) };
    await writeRecord(paths, finished);
    return finished;
  } catch (error) {
    log.warn(asSbxError(error, `completing the record of "${record.name}"`));
    return record;
  }
}

/**
 * Files that both a VM and its new image have changed. Its first start with that image finds them, in the
 * guest: no program of this host mounts a VM's disk.
 *
 * @throws {SbxError} `image.not_compared` (409): the VM has not run with the new image, or has had no other
 */
export async function imageConflicts(vm: Vm): Promise<ImageConflicts> {
  if (vm.record.assets.before !== undefined && vm.state.state === "Running") {
    const request = await readRequest(vm.paths, vm.record);
    const { before } = request;
    if (before?.rootfs === vm.record.assets.before) {
      const running = comparisons.get(vm) ??
        compare(vm, before).finally(() => comparisons.delete(vm));
      comparisons.set(vm, running);
      return await running;
    }
  }
  const text = await ifFound(Deno.readTextFile(pathOf(vm.paths)));
  const kept = text === undefined ? undefined : ImageConflicts.parse(JSON.parse(text));
  const { name, environment } = vm.record;
  // Of the image that it has now, and not of one before.
  if (kept && vm.record.before && kept.image === environment?.reference) return kept;
  throw new SbxError("image.not_compared", `the changes of "${name}" were not compared with its image`, {
    hint: vm.record.before
      ? `sbx start ${name} compares them`
      : `sbx set ${name} --image IMAGE gives it another image`,
  });
}

/** Comparisons under way: whoever starts a VM waits for the one that the service has begun. */
const comparisons = new WeakMap<Vm, Promise<ImageConflicts>>();

async function compare(
  vm: Vm,
  before: NonNullable<VmRequest["before"]>,
): Promise<ImageConflicts> {
  const program = `${COMMANDS_PATH}/${PROGRAM}`;
  const { stdout, stderr, exit_code } = await execBuffered(vm, {
    command: [program],
    user: "root",
    cwd: "/",
    timeout_secs: COMPARE_SECS,
  });
  const found = exit_code === 0 ? parseConflicts(stdout) : undefined;
  if (!found) {
    // A layer of an older sbx will not have it at the next start either.
    if (NOT_RUN.includes(exit_code)) await noteCompared(vm, before);
    throw new SbxError(
      "image.not_compared",
      `${PROGRAM} in "${vm.record.name}" failed (exit code ${exit_code}): ${stderr.slice(0, 300).trim()}`,
      { hint: `sbx logs ${vm.record.name} may say more; sbx stop and sbx start try again` },
    );
  }
  const conflicts: ImageConflicts = {
    ...(vm.record.environment && { image: vm.record.environment.reference }),
    ...(vm.record.before?.reference && { before: vm.record.before.reference }),
    ...found,
  };
  await writeAtomic(pathOf(vm.paths), JSON.stringify(conflicts) + "\n");
  await noteCompared(vm, before);
  return conflicts;
}

/** Lets a VM start from memory again, unless it got another image meanwhile. */
async function noteCompared(vm: Vm, before: NonNullable<VmRequest["before"]>): Promise<void> {
  const request = await readRequest(vm.paths, vm.record);
  const { rootfs, ...compared } = before;
  const isSame = request.before?.rootfs === rootfs && request.before?.environment === before.environment;
  if (isSame) await writeRequest(vm.paths, { ...request, before: compared });
}

/**
 * Reads the output of the guest's program, which is any bytes.
 *
 * @returns undefined: it is not its output, or not all of it
 */
export function parseConflicts(text: string): Pick<ImageConflicts, "files" | "total"> | undefined {
  const lines = text.trimEnd().split("\n");
  const total = /^total (\d{1,9})$/.exec(lines.pop() ?? "")?.[1];
  if (total === undefined || lines.length > CONFLICTS_MAX) return undefined;
  const files: ImageConflicts["files"] = [];
  for (const line of lines) {
    const [, kind, encoded] = LINE.exec(line) ?? [];
    if (!kind) return undefined;
    const path = decoded(encoded);
    files.push({
      path,
      kind: kind as ImageConflicts["files"][number]["kind"],
      is_package_list: PACKAGE_LISTS.test(path),
    });
  }
  if (files.length > Number(total)) return undefined;
  // What a package manager knows decides about the rest.
  files.sort((a, b) =>
    Number(b.is_package_list) - Number(a.is_package_list) || (a.path < b.path ? -1 : Number(a.path > b.path))
  );
  return { files, total: Number(total) };
}

/** A name that is not UTF-8 stays encoded. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function pathOf({ dir }: Pick<VmPaths, "dir">): string {
  return join(dir, "conflicts.json");
}
