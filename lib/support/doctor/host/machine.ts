/** The machine: memory, disk, clock, port, proxies and a company's CA. */
import { statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Home } from "../../../base/home/mod.ts";
import { formatBytes } from "../../../base/progress/mod.ts";
import { SOURCE_DATE_EPOCH } from "../../../base/version/mod.ts";
import { GATEWAY_PORT } from "../../../base/port/mod.ts";
import { readCaFile, readProxies } from "../../../base/proxy/mod.ts";
import { readToml } from "../../../base/toml/mod.ts";
import { failed, type HostProbe, note, ok, type Outcome, PROBE_MS } from "./check.ts";
import type { HostSystem } from "./system.ts";

/** Least memory for a VM beside what runs, in `bytes`. */
const MEMORY_MIN = 1024 ** 3;
/** Least room for images and records, in `bytes`. */
const DISK_MIN = 2 * 1024 ** 3;
/** Difference of clocks that breaks TLS, in `ms`. */
const SKEW_MAX_MS = 5 * 60_000;
/** Bundle of the system, and the folder of CAs that administrators add to it. */
const BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
const ADDED = "/usr/local/share/ca-certificates";
/** Longest wait for a proxy, in `ms`. */
const CONNECT_MS = PROBE_MS - 200;

export const MACHINE_PROBES: HostProbe[] = [
  { id: "memory", title: "memory", run: checkMemory },
  { id: "disk", title: "disk", run: checkDisk },
  { id: "port", title: "port", run: checkPort },
  { id: "clock", title: "clock", run: checkClock },
  { id: "proxy", title: "proxies", run: checkProxies },
  { id: "company-ca", title: "company CA", run: checkCompanyCa },
];

function checkMemory(): Outcome {
  const { available: free, total } = Deno.systemMemoryInfo();
  const detail = `${formatBytes(free)} of ${formatBytes(total)} available`;
  return free < MEMORY_MIN
    ? failed(`${detail}; a VM needs 1 GiB`, "sbx suspend NAME, or sbx stop")
    : ok(detail);
}

async function checkDisk({ dir }: Home): Promise<Outcome> {
  const { bavail, blocks, bsize } = await statfs(await nearest(dir));
  const detail = `${formatBytes(bavail * bsize)} of ${formatBytes(blocks * bsize)} available for ${dir}`;
  return bavail * bsize < DISK_MIN ? failed(`${detail}; images need 2 GiB`, "sbx image prune") : ok(detail);
}

/** The folder itself, or the first one above that exists. */
async function nearest(dir: string): Promise<string> {
  for (let at = dir;; at = dirname(at)) {
    if (at === dirname(at) || await Deno.stat(at).then(() => true, () => false)) return at;
  }
}

async function checkPort({ gatewayPortFile }: Home): Promise<Outcome> {
  const own = await Deno.readTextFile(gatewayPortFile).catch(() => "");
  if (own.trim() !== "") return ok(`the gateway's port is ${own.trim()}`);
  try {
    Deno.listen({ hostname: "127.0.0.1", port: GATEWAY_PORT }).close();
    return ok(`${GATEWAY_PORT} is free`);
  } catch {
    return note(`another program has ${GATEWAY_PORT}: the gateway takes any free port`);
  }
}

/** Compares the clock with the time of this build and of files that were written here. */
async function checkClock(
  { dir, logsDir, runDir, sessionsDir }: Home,
  { os, output }: HostSystem,
): Promise<Outcome> {
  const now = Date.now();
  const built = (SOURCE_DATE_EPOCH ?? 0) * 1000;
  const times = await Promise.all(
    [dir, logsDir, runDir, sessionsDir].map((path) =>
      Deno.stat(path).then(({ mtime }) => mtime?.getTime() ?? 0, () => 0)
    ),
  );
  const latest = Math.max(built, ...times);
  if (latest > now + SKEW_MAX_MS) {
    return failed(
      `${new Date(now).toISOString()} is before ${
        new Date(latest).toISOString()
      }, when files here were written`,
      os === "darwin" ? "sudo sntp -sS time.apple.com" : "sudo timedatectl set-ntp true",
    );
  }
  // macOS keeps the clock itself, and only root can ask whether it does.
  const synchronized = os === "darwin"
    ? undefined
    : await output("timedatectl", ["show", "-p", "NTPSynchronized", "--value"]);
  return synchronized !== undefined && synchronized !== "yes"
    ? note(`${new Date(now).toISOString()}, not synchronized with a server`)
    : ok(new Date(now).toISOString());
}

/** Tests whether the proxy of the settings, or else of the environment, answers. */
async function checkProxies({ dir }: Home): Promise<Outcome> {
  const [url, no_proxy, auth_file] = await userSettings(dir, [
    "network.upstream_proxy",
    "network.no_proxy",
    "network.upstream_proxy_auth_file",
  ]);
  const { https, http, find } = await readProxies({
    ...(typeof url === "string" && { url }),
    ...(Array.isArray(no_proxy) && { no_proxy }),
    ...(typeof auth_file === "string" && auth_file !== "" && { auth_file }),
  });
  if (find) {
    // Any address: the file must answer.
    const [extra] = await userSettings(dir, ["network.extra_ca_file"]);
    const caCerts = typeof extra === "string" && extra !== "" ? await readCaFile(extra) : [];
    await find({ scheme: "https", host: "192.0.2.1", port: 443 }, caCerts);
    return ok("its PAC file answers");
  }
  const proxy = https ?? http;
  if (!proxy) return ok("none set");
  const { hostname, port } = proxy;
  try {
    const connection = await Deno.connect({ hostname, port, signal: AbortSignal.timeout(CONNECT_MS) });
    connection.close();
    return ok(`${hostname}:${port} answers`);
  } catch {
    return failed(
      `the proxy at ${hostname}:${port} does not answer`,
      "sbx settings set network.upstream_proxy http://HOST:PORT, or none",
    );
  }
}

/** CAs that an administrator added must be in the bundle that programs read, and known to sbx. */
async function checkCompanyCa({ dir }: Home, { os }: HostSystem): Promise<Outcome> {
  const [extra] = await userSettings(dir, ["network.extra_ca_file"]);
  if (typeof extra === "string" && extra !== "") {
    await readCaFile(extra);
    return ok(`servers may have certificates of ${extra}`);
  }
  if (os === "darwin") return ok("none set; a CA of the keychain is known to sbx with network.extra_ca_file");
  const entries = await Array.fromAsync(Deno.readDir(ADDED), ({ name }) => name).catch(() => []);
  const names = entries.filter((name) => name.endsWith(".crt"));
  if (names.length === 0) return ok("none installed");
  const bundle = bodyOf(await Deno.readTextFile(BUNDLE).catch(() => ""));
  const missing: string[] = [];
  for (const name of names) {
    const body = bodyOf(await Deno.readTextFile(`${ADDED}/${name}`).catch(() => ""));
    if (body === "" || !bundle.includes(body.slice(0, 200))) missing.push(name);
  }
  return missing.length > 0
    ? failed(`${missing.join(", ")} of ${ADDED} is not trusted`, "sudo update-ca-certificates")
    : note(`this system trusts ${names.join(", ")}, and sbx does with network.extra_ca_file`);
}

/** Values of settings.toml; undefined where a setting or the file is absent or broken. */
async function userSettings(dir: string, ids: readonly string[]): Promise<unknown[]> {
  const document = await readToml(join(dir, "settings.toml")).catch(() => undefined);
  const settings = (document?.value as { settings?: Record<string, { value?: unknown }> } | undefined)
    ?.settings;
  return ids.map((id) => settings?.[id]?.value);
}

/** Base64 of certificates without line breaks. */
function bodyOf(pem: string): string {
  return pem.replaceAll(/-----[A-Z ]+-----|\s/g, "");
}
