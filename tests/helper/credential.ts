/** Brokers over a real store in a folder of their own. */
import { Buffer } from "node:buffer";
import { join } from "node:path";
import {
  type Accounts,
  CredentialBroker,
  CredentialStore,
  type NewCredential,
  type Provider,
  refOf,
} from "../../lib/credential/mod.ts";
import type { Destination } from "../../lib/network/interface/mod.ts";

/** A secret of each provider. */
export const KEY: Record<Provider, string> = {
  anthropic: "sk-ant-api03-" + "Zq7".repeat(30),
  openai: "sk-proj-4fQ9" + "kLm2".repeat(20),
  google: "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
  github: "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
  mcp: "mcp/secret+with=signs:1234567890",
};
export const ALL = Object.keys(KEY) as Provider[];

/** A store, its refs by provider, and brokers over it. */
export interface World {
  store: CredentialStore;
  open(providers?: Provider[], vm?: string, accounts?: Accounts): Promise<CredentialBroker>;
  refs: Record<string, string>;
}

/** A store with these credentials, and brokers over it. */
export function world(credentials: NewCredential[], run: (world: World) => Promise<void>) {
  return async () => {
    const dir = await Deno.makeTempDir();
    const brokers: CredentialBroker[] = [];
    try {
      const store = new CredentialStore(join(dir, "credentials", "store.json"));
      if (credentials.length) await store.add(credentials);
      const open = async (providers: Provider[] = ALL, vm = "vm-a", accounts?: Accounts) => {
        const broker = await CredentialBroker.open({ store, providers, vm, ...(accounts && { accounts }) });
        brokers.push(broker);
        return broker;
      };
      const refs = Object.fromEntries(
        credentials.map(({ provider, secret }) => [provider, refOf(provider, secret)]),
      );
      await run({ store, open, refs });
    } finally {
      for (const broker of brokers) await broker.close();
      await Deno.remove(dir, { recursive: true });
    }
  };
}

/** All of them, added by a person. */
export const added = ALL.map((provider): NewCredential => ({
  provider,
  secret: KEY[provider],
  ...(provider === "mcp" && { hosts: ["mcp.example.com", "other.example.com:8443"] }),
}));
export const to = (host: string, scheme = "https", port = 443): Destination => ({ scheme, host, port });
export const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;
export const encode = (text: string) => new TextEncoder().encode(text);
export const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
