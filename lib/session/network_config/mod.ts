/** The network settings of a VM, read and checked: before the VM is made, and when its network opens. */
import { isAbsolute } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { Overrides, parseResolvers, type Resolver, systemResolvers } from "../../dns/mod.ts";
import { BUILT_IN_PRICES, loadPrices, type Prices } from "../../model/mod.ts";
import type { Contract } from "../files/contract.ts";

/** Limit of a file with authorities, in `bytes`: those of a whole system are a quarter of a MiB. */
const CA_FILE_MAX = 4 * 1024 * 1024;

/** Network settings, ready for use. */
export interface NetworkConfig {
  resolvers: Resolver[];
  overrides: Overrides;
  /** PEM */
  caCerts: string[];
  prices: Prices;
}

/**
 * Reads the network settings of a contract.
 *
 * @throws {SbxError} `dns.resolver.invalid`, `network.override.invalid`, `network.ca_file.invalid`,
 * `network.ca_file.not_found`, `model.prices.invalid`, `model.prices.not_found`, each naming the setting
 */
export async function readNetworkConfig(
  { resolvers, overrides, extra_ca_file, price_file }: Contract["network"],
): Promise<NetworkConfig> {
  const [resolverList, overrideTable, caCerts, prices] = await Promise.all([
    readSetting(
      "network.dns_resolvers",
      () => resolvers.length > 0 ? parseResolvers(resolvers) : systemResolvers(),
    ),
    readSetting("network.upstream_overrides", () => Overrides.parse(overrides)),
    readSetting("network.extra_ca_file", () => extra_ca_file === undefined ? [] : readCaFile(extra_ca_file)),
    readSetting(
      "network.model_price_file",
      () =>
        price_file === undefined
          ? BUILT_IN_PRICES
          : loadPrices(requireAbsolute(price_file, "model.prices.invalid")),
    ),
  ]);
  return { resolvers: resolverList, overrides: overrideTable, caCerts, prices };
}

/** Reads the value of one setting; an error names the setting. */
async function readSetting<T>(setting: string, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (!(cause instanceof SbxError)) throw cause;
    const { code, message, hint } = cause;
    throw new SbxError(code, message.startsWith(`${setting}:`) ? message : `${setting}: ${message}`, {
      cause,
      hint: [hint, `sbx settings explain ${setting} shows where it is set`].filter(Boolean).join("; "),
    });
  }
}

/** Reads the certificates of a PEM file, in the form that TLS clients take. */
async function readCaFile(path: string): Promise<string[]> {
  const text = await readText(requireAbsolute(path, "network.ca_file.invalid"));
  if (!/-----BEGIN CERTIFICATE-----/.test(text)) {
    throw new SbxError("network.ca_file.invalid", `${path} holds no certificate`, {
      hint: "name a PEM file: each certificate begins with -----BEGIN CERTIFICATE-----",
    });
  }
  try {
    // The runtime's own reader, which will use them.
    Deno.createHttpClient({ caCerts: [text] }).close();
  } catch (cause) {
    throw new SbxError("network.ca_file.invalid", `a certificate in ${path} is damaged`, {
      cause,
      hint: `openssl x509 -in ${path} -noout -text shows the first one`,
    });
  }
  return [text];
}

async function readText(path: string): Promise<string> {
  try {
    const { isFile, size } = await Deno.stat(path);
    if (isFile && size <= CA_FILE_MAX) return await Deno.readTextFile(path);
  } catch (cause) {
    const gone = cause instanceof Deno.errors.NotFound;
    throw new SbxError(
      gone ? "network.ca_file.not_found" : "network.ca_file.invalid",
      gone ? `there is no file ${path}` : `${path} cannot be read`,
      { cause, hint: "name a PEM file with certificates that you may read" },
    );
  }
  throw new SbxError(
    "network.ca_file.invalid",
    `${path} is not a file of certificates: it has more than ${CA_FILE_MAX} bytes or is not a regular file`,
  );
}

/** Refuses a relative path: the VM's process has a working folder of its own. */
function requireAbsolute(path: string, code: string): string {
  if (isAbsolute(path)) return path;
  throw new SbxError(code, `"${path}" is not an absolute path`, { hint: "begin it with /" });
}
