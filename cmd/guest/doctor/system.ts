/** Checks of the guest's own parts. */
import { X509Certificate } from "node:crypto";
import { statfs } from "node:fs/promises";
import { GUEST_WORKSPACE } from "../../../lib/event/mod.ts";
import { failed, ok, type Seen } from "./check.ts";

const CA_PATH = "/etc/sbx/ca.pem";
/** Mount points and their kinds of file system. */
const MOUNTS: [path: string, type: string][] = [
  ["/", "overlay"],
  [GUEST_WORKSPACE, "virtiofs"],
  ["/proc", "proc"],
  ["/sys", "sysfs"],
  ["/run", "tmpfs"],
  ["/dev/pts", "devpts"],
  ["/dev/shm", "tmpfs"],
];
/** Least part of a disk, and of the memory, that has to be free. */
const FREE_MIN = 0.05;
/** A kernel whose random numbers are ready has this many bits. */
const ENTROPY_BITS = 256;
/** npm of the image, and the headers with which it compiles what packages have in C++ (lib/publish/image/npm.ts). */
const NPM = "/usr/local/lib/node_modules/npm/package.json";
const HEADERS = "/usr/local/share/node-gyp";
const ACTIVITY_PROGRAM = "sbx-activity";

/** The clock is within the life of the CA's certificate; the host compares it with its own. */
export async function checkClock(): Promise<Seen> {
  const { validFrom, validTo } = new X509Certificate(await Deno.readTextFile(CA_PATH));
  const now = new Date();
  if (now < new Date(validFrom)) {
    return failed(`${now.toISOString()} is before the CA's certificate, ${validFrom}`);
  }
  if (now > new Date(validTo)) {
    return failed(`${now.toISOString()} is after the CA's certificate, ${validTo}`);
  }
  return ok(now.toISOString());
}

export async function checkMounts(): Promise<Seen> {
  const mounted = new Map<string, { type: string; options: string[] }>();
  for (const line of (await Deno.readTextFile("/proc/mounts")).split("\n")) {
    const [, path, type, options] = line.split(" ");
    if (path) mounted.set(path, { type, options: options.split(",") });
  }
  for (const [path, type] of MOUNTS) {
    const mount = mounted.get(path);
    if (mount?.type !== type) return failed(`${path} is ${mount?.type ?? "not mounted"}, not ${type}`);
    if (mount.options.includes("ro")) return failed(`${path} is read-only`);
  }
  // The kernel lists a mount whose server on the host is gone.
  await Deno.stat(`${GUEST_WORKSPACE}/.`);
  for await (const _ of Deno.readDir(GUEST_WORKSPACE)) break;
  return ok(`${MOUNTS.length} file systems, ${GUEST_WORKSPACE} answers`);
}

export async function checkDisk(): Promise<Seen> {
  const disks = await Promise.all(["/", GUEST_WORKSPACE].map(async (path) => {
    const { bavail, blocks, bsize, ffree, files } = await statfs(path);
    const isFull = bavail < blocks * FREE_MIN || (files > 0 && ffree < files * FREE_MIN);
    const inodes = files > 0 && ffree < files * FREE_MIN ? `, ${ffree} of ${files} inodes` : "";
    return {
      isFull,
      text: `${path} ${gibibytes(bavail * bsize)} of ${gibibytes(blocks * bsize)} GiB free${inodes}`,
    };
  }));
  const detail = disks.map(({ text }) => text).join("; ");
  return disks.some(({ isFull }) => isFull) ? failed(detail) : ok(detail);
}

export async function checkMemory(): Promise<Seen> {
  const sizes = new Map(
    [...(await Deno.readTextFile("/proc/meminfo")).matchAll(/^(\w+):\s+(\d+) kB$/gm)]
      .map(([, name, kilobytes]) => [name, Number(kilobytes)]),
  );
  const [total, available] = [sizes.get("MemTotal") ?? 0, sizes.get("MemAvailable") ?? 0];
  const [, kills = "0"] = /^oom_kill (\d+)$/m.exec(await Deno.readTextFile("/proc/vmstat")) ?? [];
  const ended = kills === "0"
    ? ""
    : `; programs ended by the kernel for want of memory since the boot: ${kills}`;
  const detail = `${mebibytes(available)} of ${mebibytes(total)} MiB available${ended}`;
  return available < total * FREE_MIN ? failed(detail) : ok(detail);
}

export async function checkEntropy(): Promise<Seen> {
  const bits = Number(await Deno.readTextFile("/proc/sys/kernel/random/entropy_avail"));
  return bits >= ENTROPY_BITS ? ok(`${bits} bits`) : failed(`${bits} bits of ${ENTROPY_BITS}`);
}

/** Searches for the program that reports programs and files to the host; an image may lack it. */
export async function checkActivity(): Promise<Seen> {
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const line = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    if (line.split("\0").some((word) => word.split("/").at(-1)!.replace(/\.js$/, "") === ACTIVITY_PROGRAM)) {
      return ok(`${ACTIVITY_PROGRAM} runs, process ${name}`);
    }
  }
  const isInstalled = await Deno.stat(`/usr/lib/sbx/${ACTIVITY_PROGRAM}.js`).then(() => true, () => false);
  return isInstalled ? failed("not running") : { state: "skipped", detail: "not running: not in this image" };
}

const gibibytes = (bytes: number) => (bytes / 2 ** 30).toFixed(1);
const mebibytes = (kilobytes: number) => Math.round(kilobytes / 1024);

/** npm, where the image has it. It runs no install script that a person has not approved, which looks like a broken package. */
export async function checkNpm(): Promise<Seen> {
  const text = await Deno.readTextFile(NPM).catch(() => undefined);
  if (text === undefined) return undefined;
  const { version } = JSON.parse(text);
  const scripts =
    "it runs no install script of a package before npm install-scripts approve NAME && npm rebuild NAME";
  const headers = await Array.fromAsync(Deno.readDir(HEADERS), ({ name }) => name).catch(() => []);
  return headers.length > 0
    ? ok(`${version}, headers of Node ${headers.join(", ")}; ${scripts}`)
    : failed(`${version} would download the headers of Node; ${scripts}`);
}
