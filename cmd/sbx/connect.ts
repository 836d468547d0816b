import { home } from "../../lib/base/home/mod.ts";
import { type Client, portFromEnv, start } from "../../lib/client/mod.ts";
import { remoteHost } from "./host.ts";
import { note } from "../../lib/base/print/mod.ts";

/** Returns the client of the gateway that a command is for; starts this home's gateway and service if necessary. */
export async function connect(): Promise<Client> {
  const address = remoteHost();
  if (address !== undefined) {
    const { connectRemote } = await import("../../lib/client/remote/mod.ts");
    return await connectRemote(address, Deno.env);
  }
  const { client } = await start(home(), { port: portFromEnv(), onStart: () => note("starting sbx…") });
  return client;
}
