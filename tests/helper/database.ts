/**
 * A guest's way to a database on loopback: the real proxy, a real broker, and a
 * server whose TLS the host verifies.
 */
import { join } from "node:path";
import {
  CredentialBroker,
  CredentialStore,
  type NewCredential,
  type Provider,
} from "../../lib/credential/mod.ts";
import { TestNet, type TestNetOptions } from "./net.ts";

/** Name and port of the database in the guest's world. */
export const DB_HOST = "db.example.com";

export interface DatabaseWorld extends AsyncDisposable {
  net: TestNet;
  store: CredentialStore;
  broker: CredentialBroker;
  /** refs of the credentials, in their order */
  refs: string[];
  /** a port of loopback that leads into the proxy, as the guest's connection to the database */
  port: number;
}

/** @param server port of the database on loopback, and the port that the guest uses */
export async function databaseWorld(
  server: { port: number },
  guestPort: number,
  credentials: NewCredential[],
  options: TestNetOptions & { providers?: Provider[] } = {},
): Promise<DatabaseWorld> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-db-" });
  const store = new CredentialStore(join(dir, "store.json"));
  const entries = credentials.length > 0 ? await store.add(credentials) : [];
  const providers = options.providers ?? credentials.map(({ provider }) => provider);
  const broker = await CredentialBroker.open({ store, providers, vm: "vm-a" });
  const net = await TestNet.open({
    broker,
    nameOf: () => DB_HOST,
    target: () => ({ hostname: "127.0.0.1", port: server.port, isOverride: true }),
    ...options,
  });
  const forward = net.forward(guestPort);
  return {
    net,
    store,
    broker,
    refs: entries.map(({ ref }) => ref),
    port: forward.port,
    async [Symbol.asyncDispose]() {
      forward.close();
      await net[Symbol.asyncDispose]();
      await broker.close();
      await Deno.remove(dir, { recursive: true });
    },
  };
}
