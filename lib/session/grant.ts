/**
 * The part of a contract that is about credentials. Not in the files: what reads these alone, as commands
 * about records do, loads no broker.
 */
import { type BrokerOptions, isProvider } from "../credential/mod.ts";
import type { Contract } from "./files/mod.ts";

type Custom = NonNullable<BrokerOptions["custom"]>;

/**
 * Credentials that a VM may use: the profile's, of the providers that corp leaves;
 * `only` these, its own ones included.
 *
 * @param chosen labels of the keys that the VM was made with, by provider
 */
export function grantOf(
  { profile, corp }: Pick<Contract, "profile" | "corp">,
  chosen?: Readonly<Record<string, string>>,
): Granted {
  const custom = { ...corp.custom, ...withoutPrefixesOf(corp.custom, profile.custom) };
  const hosts = [corp.provider_hosts, profile.provider_hosts].filter((table) => table !== undefined);
  const labels = [
    corp.provider_labels,
    profile.provider_labels,
    chosen && Object.fromEntries(Object.entries(chosen).map(([provider, label]) => [provider, [label]])),
  ].filter((table) => table !== undefined);
  const providers = profile.providers.filter((provider) =>
    (isProvider(provider) || Object.hasOwn(custom, provider)) && (corp.providers?.includes(provider) ?? true)
  );
  return {
    providers,
    ...(profile.accounts && { accounts: profile.accounts }),
    ...(corp.providers && { only: corp.providers }),
    ...(Object.keys(custom).length > 0 && { custom }),
    ...(hosts.length > 0 && { hosts }),
    ...(labels.length > 0 && { labels }),
  };
}

/**
 * A profile's providers, without beginnings of keys that are corp's: their keys
 * would go to the profile's hosts.
 */
function withoutPrefixesOf(corp: Custom = {}, profile: Custom = {}): Custom {
  const taken = Object.values(corp).flatMap(({ prefixes = [] }) => prefixes);
  if (taken.length === 0) return profile;
  return Object.fromEntries(
    Object.entries(profile).map(([id, { prefixes, ...provider }]) => {
      const left = prefixes?.filter((prefix) => !taken.some((each) => prefix.startsWith(each)));
      return [id, { ...provider, ...(left?.length && { prefixes: left }) }];
    }),
  );
}

/** Refs that the host itself uses for a VM, for the MCP servers that are defined with them. */
export function hostRefsOf({ profile, corp }: Pick<Contract, "profile" | "corp">): ReadonlySet<string> {
  const servers = [...Object.values(profile.mcp), ...Object.values(corp.mcp)];
  return new Set(servers.flatMap((server) => "auth" in server ? server.auth?.credential_ref ?? [] : []));
}

/** Terms of a contract about credentials. */
export type Granted =
  & { providers: readonly string[]; only?: readonly string[] }
  & Pick<BrokerOptions, "accounts" | "custom" | "hosts" | "labels">;
