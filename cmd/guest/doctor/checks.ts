/** Checks of this guest: its own parts, its ways to the host, and its clients' trust in this machine's CA. */
import { timeLimit } from "../../../lib/base/time/mod.ts";
import {
  type CheckId,
  type CheckResult,
  type CheckState,
  DETAIL_MAX,
} from "../../../lib/support/doctor/mod.ts";
import { X509Certificate } from "node:crypto";
import { statfs } from "node:fs/promises";
import { GUEST_WORKSPACE } from "../../../lib/event/mod.ts";
import { closeQuietly } from "../../../lib/base/wire/mod.ts";
import { McpClient } from "../../../lib/machine/guest/mcp/mod.ts";
import { GUEST_NETWORK, LAYER_PATH } from "../../../lib/machine/guest/wire/mod.ts";

/** Result of a check; `undefined` where there is nothing to check. */
type Seen = { state: CheckState; detail: string } | undefined;

const ok = (detail: string): Seen => ({ state: "ok", detail });
const failed = (detail: string): Seen => ({ state: "failed", detail });

/** Longest time of one check, in `ms`: an emulated guest starts a client in seconds. */
const CHECK_MS = timeLimit(20_000);

/** Runs one check; one that throws or takes too long has failed. */
export async function check(
  id: CheckId,
  run: () => Seen | Promise<Seen>,
): Promise<CheckResult | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<Seen>((resolve) => {
    timer = setTimeout(() => resolve(failed(`no answer in ${CHECK_MS / 1000} s`)), CHECK_MS);
  });
  const seen = await Promise.race([late, (async () => await run())()])
    .catch((error) => failed(error instanceof Error ? error.message : String(error)));
  clearTimeout(timer);
  return seen && { id, state: seen.state, detail: oneLine(seen.detail) };
}

/** Text of programs and errors on one line, without control characters. */
function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, " ").trim().slice(0, DETAIL_MAX);
}

/** Destination of the checks: a reserved name (RFC 6761) and address (RFC 5737), refused by the host. */
const PROBE_NAME = "sbx-doctor.invalid";
const PROBE_ADDRESS = "192.0.2.1";
const PROBE_PORT = 443;

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
/**
 * npm of the image, and the headers with which it compiles what packages have in
 * C++ (lib/publish/image/npm.ts).
 */
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
  const isInstalled = await Deno.stat(`${LAYER_PATH}/${ACTIVITY_PROGRAM}.js`).then(() => true, () => false);
  return isInstalled ? failed("not running") : { state: "skipped", detail: "not running: not in this image" };
}

const gibibytes = (bytes: number) => (bytes / 2 ** 30).toFixed(1);
const mebibytes = (kilobytes: number) => Math.round(kilobytes / 1024);

/**
 * npm, where the image has it. It runs no install script that a person has not approved,
 * which looks like a broken package.
 */
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

/** Time for an answer of the resolver, in `ms`: a rule may ask a person about the name first. */
const DNS_MS = timeLimit(5000);
const RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
const FAILURES = ["FORMERR", "SERVFAIL", "NOTIMP", "REFUSED"];

/** TLS with Deno: whether the proxy leads to the host, and whether this program trusts what answers. */
interface TlsSeen {
  proxy: Seen;
  trust: Seen;
}

/** Makes one TLS handshake through the proxy. It requests nothing, so no server is contacted. */
export async function handshake(): Promise<TlsSeen> {
  const started = performance.now();
  let tcp: Deno.TcpConn;
  try {
    tcp = await Deno.connect({ hostname: PROBE_ADDRESS, port: PROBE_PORT });
  } catch (error) {
    return unreachable(`sbx-net-proxy takes no connections: ${(error as Error).message}`);
  }
  try {
    using tls = await Deno.startTls(tcp, { hostname: PROBE_NAME });
    await tls.handshake();
  } catch (error) {
    const { message } = error as Error;
    if (!/certificate|issuer/i.test(message)) return unreachable(`no TLS from the host: ${message}`);
    return { proxy: ok(answered(started)), trust: failed(message) };
  }
  return { proxy: ok(answered(started)), trust: ok("") };
}

const answered = (started: number) => `the host answered in ${Math.round(performance.now() - started)} ms`;

function unreachable(detail: string): TlsSeen {
  return { proxy: failed(detail), trust: { state: "skipped", detail: "the network proxy does not answer" } };
}

/** Looks up a reserved name with /etc/resolv.conf: any answer but a failure comes from a host resolver. */
export async function checkDns(): Promise<Seen> {
  const [, server] = /^\s*nameserver\s+(\S+)/m.exec(await Deno.readTextFile("/etc/resolv.conf")) ?? [];
  if (server === undefined) return failed("/etc/resolv.conf names no resolver");
  const other = server === GUEST_NETWORK.resolver ? "" : ` (/etc/resolv.conf names ${server})`;
  const socket = Deno.listenDatagram({ transport: "udp", hostname: "0.0.0.0", port: 0 });
  const timer = setTimeout(() => closeQuietly(socket), DNS_MS);
  try {
    await socket.send(query(PROBE_NAME), { transport: "udp", hostname: server, port: 53 });
    const [answer] = await socket.receive();
    const rcode = RCODES[answer[3] & 15] ?? `code ${answer[3] & 15}`;
    const detail = `${rcode} for ${PROBE_NAME}${other}`;
    return FAILURES.includes(rcode) ? failed(detail) : ok(detail);
  } catch {
    return failed(`no answer in ${DNS_MS / 1000} s${other}; a rule may ask about ${PROBE_NAME}: sbx asks`);
  } finally {
    clearTimeout(timer);
    closeQuietly(socket);
  }
}

/** A query of type A. */
function query(name: string): Uint8Array {
  const labels = name.split(".").flatMap((label) => [label.length, ...new TextEncoder().encode(label)]);
  return new Uint8Array([0x5b, 0x78, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...labels, 0, 0, 1, 0, 1]);
}

export async function checkMcp(): Promise<Seen> {
  const started = performance.now();
  using client = await McpClient.connect("sbx-doctor");
  await client.ping();
  return ok(answered(started));
}

/** Where a client puts the name, so that no lookup is needed. */
const RESOLVE = `${PROBE_NAME}:${PROBE_PORT}:${PROBE_ADDRESS}`;
const PROBE_URL = `https://${PROBE_NAME}/`;

const PYTHON = `
import socket, ssl
with socket.create_connection(("${PROBE_ADDRESS}", ${PROBE_PORT}), 15) as tcp:
    ssl.create_default_context().wrap_socket(tcp, server_hostname="${PROBE_NAME}").close()
`;
const NODE = `
const socket = require("tls").connect({ host: "${PROBE_ADDRESS}", port: ${PROBE_PORT}, servername: "${PROBE_NAME}" });
socket.on("secureConnect", () => socket.end(() => process.exit(0)));
socket.on("error", (error) => { console.error(error.message); process.exit(1); });
`;

/** A client, and the test that separates untrusted certificates from its other failures. */
interface Client {
  program: string;
  args: string[];
  env?: Record<string, string>;
  /** the request of a client that cannot stop after the handshake is refused by the host: that is trust */
  trusts(code: number, stderr: string): boolean;
}

const CERTIFICATE = /certificate|SSL|TLS/i;

/**
 * Trust in the CA of this machine by the clients of the image: each makes a TLS handshake through the proxy.
 */
export const CLIENTS = {
  "ca-curl": {
    program: "curl",
    args: ["-sS", "-o", "/dev/null", "--max-time", "15", "--resolve", RESOLVE, PROBE_URL],
    trusts: (code) => code === 0,
  },
  "ca-python": { program: "python3", args: ["-c", PYTHON], trusts: (code) => code === 0 },
  "ca-node": { program: "node", args: ["-e", NODE], trusts: (code) => code === 0 },
  "ca-git": {
    program: "git",
    args: ["-c", `http.curloptResolve=${RESOLVE}`, "ls-remote", `${PROBE_URL}probe.git`],
    env: { GIT_TERMINAL_PROMPT: "0", LC_ALL: "C" },
    trusts: (_, stderr) => /403|blocked/.test(stderr) && !CERTIFICATE.test(stderr),
  },
} satisfies Record<string, Client>;

/** Tries one client; `undefined` where the image does not have it. */
export async function checkClient({ program, args, env, trusts }: Client): Promise<Seen> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command(program, { args, env, stdin: "null", cwd: "/" }).output();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  const stderr = new TextDecoder().decode(output.stderr);
  if (trusts(output.code, stderr)) return ok("");
  return failed(lastLine(stderr) || `exit code ${output.code}`);
}

function lastLine(text: string): string {
  return oneLine(text.trim().split("\n").at(-1) ?? "");
}
