import { home } from "../../lib/base/home/mod.ts";
import { type Client, portFromEnv, start } from "../../lib/client/mod.ts";
import { note } from "../../lib/base/print/mod.ts";

/** Returns the client of this home's gateway; starts the gateway and the service if necessary. */
export async function connect(): Promise<Client> {
  const { client } = await start(home(), { port: portFromEnv(), onStart: () => note("starting sbx…") });
  return client;
}
