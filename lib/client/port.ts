import { SbxError } from "../base/error/mod.ts";

/** Reads the port of a newly started gateway from `SBX_GATEWAY_PORT`. @throws {SbxError} `usage.invalid` */
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
