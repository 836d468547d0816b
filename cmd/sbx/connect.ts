import { type Client, start } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { note } from "./output.ts";

/** The client of this home's gateway; whatever does not run yet is started. */
export async function connect(): Promise<Client> {
  const { client } = await start(home(), { port: portFromEnv(), onStart: () => note("starting sbx…") });
  return client;
}

/** `SBX_GATEWAY_PORT`: where a gateway that must be started shall listen. */
export function portFromEnv(): number | undefined {
  const text = Deno.env.get("SBX_GATEWAY_PORT");
  return text ? portOf("SBX_GATEWAY_PORT", text) : undefined;
}

/** @throws SbxError `usage.invalid` */
export function portOf(from: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65535) return Number(text);
  throw new SbxError("usage.invalid", `${from} is "${text}"`, { hint: "a port is a number from 0 to 65535" });
}
