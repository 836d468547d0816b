/** Applies the host's boot configuration to this guest: variables, files, host name and certificates. */
import { timeLimit } from "../../../lib/base/time/mod.ts";
import {
  CA_PATH,
  COMMANDS_PATH,
  ERROR_CHARACTERS,
  type GuestMessage,
  type GuestStage,
  type HostMessage,
  LAYER_PATH,
  TRUST_BUNDLES,
} from "../../../lib/machine/guest/wire/mod.ts";
import { STORE_MAX, storePaths, withTrusted } from "../../../lib/machine/guest/java/mod.ts";
import { reseedKernel, setClock } from "../../../ffi/libc/machine.ts";
import { ifFound, ignore } from "../../../lib/base/error/mod.ts";

/**
 * Files of init: its measured stages, and the signals that a copy's disk is there and
 * that the late mounts are done.
 */
const STAGES = "/run/sbx/stages";
export const ROOTED = "/run/sbx/rooted";
export const MOUNTED = "/run/sbx/mounted";
const INIT_POLL_MS = 5;
const INIT_DEADLINE_MS = timeLimit(30_000);

type Begin = Extract<HostMessage, { t: "BootConfig" }>;
type FileWrite = Extract<HostMessage, { t: "FileWrite" }>;

/** Variables of every program, unless the host sets others. */
const DEFAULTS = {
  PATH: `${COMMANDS_PATH}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
  HOME: "/root",
  USER: "root",
  LANG: "C.UTF-8",
  // Headers of the image's Node, for every user (lib/publish/image/npm.ts).
  npm_package_config_node_gyp_devdir: "/usr/local/share/node-gyp",
};

/**
 * Applies the boot configuration, between `Ready` and `BootReady` (docs/design/contracts/07-guest-wire.md
 * §7).
 */
export class BootConfig {
  readonly #environment: Record<string, string>;
  readonly #isCopy: boolean;
  /** when the agent met its host, in `ms` of a copy's runtime, or else of the guest's uptime */
  readonly #started: number;
  readonly #failures: string[] = [];

  /**
   * @param environment variables of every program in this VM, replaced by this start's
   * @param isCopy the machine was started from memory: its stages of init belong to another machine
   */
  constructor(environment: Record<string, string>, isCopy: boolean) {
    for (const key of Object.keys(environment)) delete environment[key];
    this.#environment = Object.assign(environment, DEFAULTS);
    this.#isCopy = isCopy;
    // Init is moving a copy's /proc to another root file system: there may be none at this moment.
    this.#started = isCopy ? performance.now() : uptimeMs();
  }

  setVariable(key: string, value: string): void {
    this.#environment[key] = value;
  }

  async begin(message: Begin): Promise<void> {
    const arrived = performance.now();
    try {
      // A copy gets its disk now, and /dev and /proc move there; earlier files would stay hidden below it.
      if (this.#isCopy) await appeared(ROOTED);
      becomeOneself(message, { isCopy: this.#isCopy, arrived });
      await writeIdentity(message);
    } catch (error) {
      this.#failures.push(messageOf(error));
    }
  }

  async writeFile({ path, content, mode }: FileWrite): Promise<void> {
    try {
      await Deno.mkdir(folderOf(path) || "/", { recursive: true });
      if (await hasPipe(path)) await Deno.remove(path);
      await Deno.writeFile(path, Uint8Array.fromBase64(content), { mode });
      await Deno.chmod(path, mode);
      if (path === CA_PATH) {
        await trust(atob(content));
        await trustInJava(atob(content)).catch(
          ignore("a VM without it boots, and its JDK refuses inspected HTTPS"),
        );
      }
    } catch (error) {
      this.#failures.push(`${path}: ${messageOf(error)}`);
    }
  }

  /** Waits for init's late mounts, then returns the result of the boot. */
  async finish(): Promise<GuestMessage> {
    await appeared(MOUNTED).catch((error) => this.#failures.push(messageOf(error)));
    if (this.#failures.length > 0) {
      return { t: "BootFailed", error: this.#failures.join("; ").slice(0, ERROR_CHARACTERS) };
    }
    return { t: "BootReady", stages: this.#stages() };
  }

  #stages(): GuestStage[] {
    if (this.#isCopy) return [{ name: "ready", ms: performance.now() - this.#started }];
    return [...initStages(), { name: "agent", ms: this.#started }, { name: "ready", ms: uptimeMs() }];
  }
}

function initStages(): GuestStage[] {
  return Deno.readTextFileSync(STAGES).trim().split("\n").map((line) => {
    const [name, seconds] = line.split(" ");
    return { name, ms: Number(seconds) * 1000 };
  });
}

function uptimeMs(): number {
  return Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]) * 1000;
}

/** Waits for a file of init. */
export async function appeared(path: string): Promise<void> {
  const deadline = performance.now() + INIT_DEADLINE_MS;
  while (!exists(path)) {
    if (performance.now() > deadline) {
      throw new Error(`init's mounts were not ready after ${INIT_DEADLINE_MS / 1000} s`);
    }
    await new Promise((resolve) => setTimeout(resolve, INIT_POLL_MS));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

const USER_NAMESPACES = "/proc/sys/user/max_user_namespaces";
/** Most user namespaces of a user where a VM may have them. */
const USER_NAMESPACES_MAX = 4096;

/**
 * Gives this machine an identity different from others started from the same memory, before any program of a
 * user runs: random numbers, clock and name. The boot id needs nothing: the kernel draws it when it is first
 * read.
 *
 * @param isCopy the machine was started from memory: others know its kernel's secrets
 * @param arrived when the message came, by `performance.now()`: a booted machine's clock counts whole seconds
 *  from then on
 */
function becomeOneself(
  { epoch_ms, seed, hostname, user_namespaces }: Begin,
  { isCopy, arrived }: { isCopy: boolean; arrived: number },
): void {
  if (isCopy) reseedKernel(Uint8Array.fromBase64(seed));
  setClock(epoch_ms + performance.now() - arrived);
  Deno.writeTextFileSync("/proc/sys/kernel/hostname", hostname);
  if (user_namespaces) Deno.writeTextFileSync(USER_NAMESPACES, String(USER_NAMESPACES_MAX));
}

/** Writes the machine's name and id where programs look for them; a VM that starts again has them already. */
async function writeIdentity({ hostname, machine_id }: Begin): Promise<void> {
  const files = {
    "/etc/hostname": `${hostname}\n`,
    "/etc/machine-id": `${machine_id}\n`,
    "/etc/hosts": withName(await ifFound(Deno.readTextFile("/etc/hosts")) ?? "", hostname),
  };
  for (const [path, text] of Object.entries(files)) {
    if (await ifFound(Deno.readTextFile(path)) !== text) await Deno.writeTextFile(path, text);
  }
}

/** The first line is ours; everything below it is the user's. */
function withName(hosts: string, hostname: string): string {
  const [, ...rest] = hosts.split("\n");
  return [`127.0.0.1 localhost ${hostname}`, ...rest].join("\n");
}

/** Bundle that every guest has. */
const [BUNDLE] = TRUST_BUNDLES;
/** The certificates of the layer, for images that have none. */
const AUTHORITIES = `${LAYER_PATH}/ca-certificates.crt`;
/** Source of the certificate for update-ca-certificates. */
export const SOURCE = "/usr/local/share/ca-certificates/sbx.crt";

/**
 * Makes every program of the guest trust `pem`, in place of an earlier certificate of the host. Faster than
 * update-ca-certificates, which takes seconds under emulation; a later run by a package finds the certificate
 * in its source folder.
 *
 * @param root root of the guest's files
 */
export async function trust(pem: string, root = ""): Promise<void> {
  const before = await isFile(root + SOURCE) ? await Deno.readTextFile(root + SOURCE) : undefined;
  if (before === pem) return;
  if (!await isFile(root + BUNDLE)) await writeBundle(root);
  const done = new Set<string>();
  for (const path of TRUST_BUNDLES) {
    const file = await Deno.realPath(root + path).catch(() => undefined);
    if (file === undefined || done.has(file) || !await isFile(file)) continue;
    done.add(file);
    // Appended without reading the 220 KB file, since this is part of every boot.
    if (before === undefined) await Deno.writeTextFile(file, pem, { append: true });
    else await Deno.writeTextFile(file, (await Deno.readTextFile(file)).replace(before, "") + pem);
  }
  if (before === undefined) {
    await makeRoom(root + SOURCE);
    // As update-ca-certificates would; Debian's package of Java's store takes files with a link.
    await Deno.symlink(SOURCE, `${root}${folderOf(BUNDLE)}/sbx.pem`).catch(ignore("an image may have one"));
  }
  await Deno.writeTextFile(root + SOURCE, pem);
}

/**
 * Puts the certificate into the stores of the JDKs of this guest, at each boot: one that was installed
 * without a package, or came with another image, has a store of its own.
 *
 * @param root root of the guest's files
 */
export async function trustInJava(pem: string, root = ""): Promise<void> {
  const list = (folder: string) => {
    try {
      return [...Deno.readDirSync(root + folder)].map(({ name }) => name);
    } catch {
      return [];
    }
  };
  const failures: unknown[] = [];
  for (const path of storePaths(list)) {
    // One store may be on a disk that cannot be written, and others not.
    await trustInStore(root + path, pem).catch((error) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}

async function trustInStore(path: string, pem: string): Promise<void> {
  const file = await Deno.realPath(path).catch(() => undefined);
  const info = file === undefined ? undefined : await Deno.stat(file);
  if (file === undefined || !info?.isFile || info.size > STORE_MAX) return;
  const store = await withTrusted(await Deno.readFile(file), pem);
  if (store === undefined) return;
  const fresh = await Deno.makeTempFile({ dir: folderOf(file) });
  try {
    await Deno.writeFile(fresh, store);
    // A JDK in a person's hands stays theirs.
    await Deno.chown(fresh, info.uid, info.gid);
    await Deno.chmod(fresh, info.mode! & 0o777);
    await Deno.rename(fresh, file);
  } catch (error) {
    await Deno.remove(fresh).catch(ignore("the store is as it was"));
    throw error;
  }
}

async function isFile(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isFile, () => false);
}

/** A pipe in an image would make the agent wait for its reader. */
async function hasPipe(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isFifo === true, () => false);
}

/**
 * Removes whatever an image has in place of a file, such as a link that leads nowhere, and makes its folder.
 */
async function makeRoom(path: string): Promise<void> {
  await Deno.mkdir(folderOf(path), { recursive: true });
  await ifFound(Deno.remove(path, { recursive: true }));
}

async function writeBundle(root: string): Promise<void> {
  await makeRoom(root + BUNDLE);
  await Deno.writeTextFile(root + BUNDLE, await ifFound(Deno.readTextFile(AUTHORITIES)) ?? "");
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
