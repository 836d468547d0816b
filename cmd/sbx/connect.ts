import { SbxError } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { type Client, start } from "../../lib/client/mod.ts";
import { note } from "../../lib/base/print/mod.ts";

/** Returns the client of this home's gateway; starts the gateway and the service if necessary. */
export async function connect(): Promise<Client> {
  const { client } = await start(home(), { port: portFromEnv(), onStart: () => note("starting sbx…") });
  return client;
}

/** Reads the port of a new gateway from `SBX_GATEWAY_PORT`. @throws {SbxError} `usage.invalid` */
export function portFromEnv(): number | undefined {
  const text = Deno.env.get("SBX_GATEWAY_PORT");
  return text ? parsePort("SBX_GATEWAY_PORT", text) : undefined;
}

/**
 * Parses a port.
 *
 * @param source option or environment variable, for the error
 * @throws {SbxError} `usage.invalid`: not a number from 0 to 65535
 */
export function parsePort(source: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65535) return Number(text);
  throw new SbxError("usage.invalid", `invalid value "${text}" of ${source}`, {
    hint: "give a port from 0 to 65535",
  });
}
