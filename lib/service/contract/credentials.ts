/**
 * Credentials as the API shows and takes them, secrets that a person brings for a VM, and the refs that its
 * guest has in their place (docs/design/contracts/09-credentials.md §9).
 */
import { basename } from "node:path";
import type { CredentialAdd, CredentialView } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import {
  AWS_VARIABLES,
  awsKeysOf,
  CAPTURED_MAX,
  Catalogue,
  chosenOf,
  claimantOf,
  type CloudTerms,
  CredentialBroker,
  CredentialStore,
  decoySecret,
  type Definition,
  definitionOf,
  DEFINITIONS,
  holdsToken,
  hostTest,
  isForVms,
  isLeft,
  type LoanTerms,
  looksSecret,
  type NewCredential,
  type Provider,
  SECRET_MIN,
  type SshTerms,
  type StoredEntry,
  storePath,
} from "../../credential/mod.ts";
import { CORP_PREFIX } from "../../credential/schema.ts";
import { knownHosts, sshPlaceOf } from "./ssh.ts";
import { type AddedProvider, findAdded } from "./providers.ts";
import type { Granted } from "../../session/mod.ts";
import type { GrantedVm } from "./labels.ts";
import { Buffer } from "node:buffer";
import { isHostZone } from "../../base/address/mod.ts";
import { openCa } from "../../network/ca/mod.ts";
import { type BootFile, CA_PATH, TRUST_BUNDLES, TRUST_VARIABLES } from "../../machine/guest/wire/mod.ts";

/**
 * Checks a request for a credential.
 *
 * @param added providers of corp and of profiles
 * @param ssh terms of an SSH key, as `sshTerms` makes them
 * @throws {SbxError} `credential.invalid`: its fields do not fit together; as {@linkcode findAdded}
 */
export function newCredential(
  { provider, secret, label, host, decoy, custom: said, origin, database, signing, vm, loan }: CredentialAdd,
  added: readonly AddedProvider[] = [],
  ssh?: SshTerms,
): NewCredential {
  const builtIn = Catalogue.BUILT_IN.named(provider);
  if (said) requireNew(provider, builtIn);
  const custom = said ?? (builtIn ? undefined : findAdded(added, provider)?.places);
  const definition = custom ? definitionOf(provider, custom) : builtIn;
  if (!definition) {
    throw new SbxError("credential.invalid", `no provider "${provider}"`, {
      hint:
        "sbx credentials providers lists them; --custom NAME is for another service, and mcp for MCP servers",
    });
  }
  if (signing) {
    throw new SbxError("credential.invalid", `keys of ${provider} sign no commits`, {
      hint: "sbx credentials add signing --key FILE",
    });
  }
  // One VM's may be for a part of the hosts that its provider has.
  const isNarrowed = vm !== undefined && host !== undefined &&
    definition.hosts.some((own) => hostTest(own)(host));
  if (!isNarrowed) requireHost(definition, host);
  if (vm !== undefined && (secret === undefined || decoy || custom || origin || database || ssh)) {
    throw new SbxError("credential.invalid", "a credential for one VM is a secret of a known provider", {
      hint: "leave out vm, or all fields but provider, secret, label and host",
    });
  }
  if (loan && vm === undefined) {
    throw new SbxError("credential.invalid", "only one VM is lent a credential", {
      hint: "name the VM by its id in vm, or leave out loan",
    });
  }
  if (database) requireDatabase(definition, host!, database);
  if ((ssh !== undefined) !== (definition.ssh !== undefined)) {
    throw new SbxError(
      "credential.invalid",
      `${definition.id} ${ssh ? "has no SSH keys" : "needs the terms of a key"}`,
      {
        hint: "sbx credentials add ssh --host HOST --key FILE",
      },
    );
  }
  if (definition.signed_hosts && secret !== undefined && !origin?.cloud) requireAwsKeys(secret);
  if (label !== undefined) requireNoKey("label", label);
  // Clouds give hosts random names, with dots.
  if (host !== undefined && (!host.includes(".") || holdsToken(host))) requireNoKey("host", host);
  if (origin?.cloud) requireCloudKey(definition, origin.cloud, secret);
  else if ((secret === undefined) === (origin === undefined) && !decoy && !ssh || decoy && origin) {
    throw new SbxError("credential.invalid", origin ? "two secrets for one key" : "the secret is missing", {
      hint: "give a secret, or a program or variable that has it; only a decoy can do without",
    });
  }
  for (const word of origin?.program ?? []) requireNoKey("program", word);
  return {
    provider: definition.id,
    // The ref of a secret that changes is made of a random text.
    secret: secret ?? (origin || ssh ? crypto.randomUUID() : decoySecret(definition.id)),
    label,
    ...(host !== undefined && { hosts: [placeOf(definition, host)] }),
    ...(custom && { custom }),
    ...(origin && { origin }),
    ...(decoy && { decoy }),
    ...(database && Object.keys(database).length > 0 && { database }),
    ...(ssh && { ssh }),
    ...(vm !== undefined && { only: vm }),
    ...(loan && { loan: loanOf(loan), ...(loan.renews && { renews: true }) }),
  };
}

function loanOf({ seconds, id, path }: NonNullable<CredentialAdd["loan"]>): LoanTerms {
  const until = new Date(Date.now() + seconds * 1000).toISOString();
  return { until, id, ...(path !== undefined && { path }) };
}

const CLOUD_HINTS: Record<CloudTerms["kind"], string> = {
  gcp: "sbx credentials add gcp --service-account FILE",
  azure: "sbx credentials add azure --tenant ID --client-id ID",
  aws: "sbx credentials add aws --profile NAME, or --role ARN",
};

/** A key of an identity at a cloud comes with its terms. @throws {SbxError} `credential.invalid` */
function requireCloudKey({ id }: Definition, cloud: CloudTerms, secret: string | undefined): void {
  const isHosts = cloud.kind === "aws" && cloud.profile !== undefined;
  if (cloud.kind === id && (isHosts ? secret === undefined : secret?.startsWith("{"))) return;
  throw new SbxError("credential.invalid", `that is not a key of an identity at ${id}`, {
    hint: CLOUD_HINTS[cloud.kind],
  });
}

/** A provider that a person adds has a name of its own. @throws {SbxError} `credential.invalid` */
function requireNew(id: Provider, builtIn: Definition | undefined): void {
  const problem = builtIn
    ? `sbx knows the provider ${builtIn.id} and where its keys go`
    : id.startsWith(CORP_PREFIX)
    ? `only corp adds providers whose name begins with ${CORP_PREFIX}`
    : undefined;
  if (problem === undefined) return;
  throw new SbxError("credential.invalid", problem, {
    hint: builtIn ? `sbx credentials add ${builtIn.id}` : "give it another name",
  });
}

/** A database, or an SSH server, has a port: another one is another server. */
function placeOf({ database, ssh }: Definition, host: string): string {
  if (ssh) return sshPlaceOf(host);
  return database && !host.includes(":") ? `${host}:${database.port}` : host;
}

/** @throws {SbxError} `credential.invalid`: no database, or one that needs TLS */
function requireDatabase(
  { id, database }: Definition,
  host: string,
  { tls, md5, user, name }: NonNullable<CredentialAdd["database"]>,
): void {
  const invalid = (problem: string, hint: string) => new SbxError("credential.invalid", problem, { hint });
  if (!database) throw invalid(`${id} is not a database`, "leave out user, database, tls and md5");
  if (md5 && id !== "postgres") throw invalid(`${id} has no MD5 passwords`, "leave out md5");
  for (const text of [user, name]) if (text !== undefined) requireNoKey("label", text);
  const hostname = host.split(":")[0];
  if (tls !== "off" || isLoopbackName(hostname) || isHostZone(hostname)) return;
  throw invalid(
    `the password would cross the network to ${hostname} without TLS`,
    "leave out --tls off; it is for databases of this machine, such as postgres.host.sbx",
  );
}

function isLoopbackName(host: string): boolean {
  return host === "localhost" || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
}

/** Keys that sign have two parts or three. */
function requireAwsKeys(secret: string): void {
  if (awsKeysOf(secret)) return;
  throw new SbxError("credential.invalid", "the secret is not ID:SECRET or ID:SECRET:TOKEN", {
    hint: "give the parts of the key with colons between them, without spaces",
  });
}

/** A host is for providers whose keys name one, and needed where they own none. */
function requireHost(
  { id, hosts, named_hosts, signed_hosts, database, ssh }: Definition,
  host: string | undefined,
): void {
  const invalid = (problem: string, hint: string) => new SbxError("credential.invalid", problem, { hint });
  if (host === undefined) {
    if (hosts.length > 0 || signed_hosts || !named_hosts) return;
    throw invalid(`a credential of ${id} needs the host that it may be sent to`, "name it: --host HOST");
  }
  if (!named_hosts) {
    throw invalid(
      `${id} has hosts of its own; its credentials take no host`,
      "give host with mcp, or leave it out",
    );
  }
  // Neither is an HTTP server that a provider could own.
  if (database || ssh) return;
  const name = host.split(":")[0];
  if (!named_hosts.some((pattern) => hostTest(pattern)(name))) {
    throw invalid(`keys of ${id} do not go to ${name}`, `name a host such as ${named_hosts.join(" or ")}`);
  }
  // A key of an MCP server may be one of a provider, for its host.
  const claimant = id === "mcp" ? undefined : claimantOf(name, DEFINITIONS.filter((each) => each.id !== id));
  if (claimant) throw invalid(`${name} is ${claimant.title}'s`, `add the key as one of ${claimant.id}`);
  if (claimantOf(name, [{ ...Catalogue.BUILT_IN.find(id)!, hosts: [] }])) {
    throw invalid(`others can read requests to ${name}`, "name the host of the service itself");
  }
}

/** Running VMs whose programs may use a credential from now on, with the variables that have its ref. */
export function vmsWith(
  entry: StoredEntry,
  vms: readonly GrantedVm[],
): { name: string; variables: string[] }[] {
  const { provider, decoy, custom } = entry;
  if (decoy || isForVms(entry)) return [];
  const variables = custom
    ? [...custom.env ?? []]
    : [...Catalogue.BUILT_IN.signs(provider) ? AWS_VARIABLES : Catalogue.BUILT_IN.envNamesOf(provider)];
  return vms.filter(({ granted: { providers, labels } }) =>
    providers.includes(provider) && isLeft(entry, labels)
  ).map(({ name }) => ({ name, variables }));
}

/**
 * Names of the running VMs whose key of its provider an entry is; of a server's logins,
 * each account has a key of its own.
 */
export function usersOf(
  entry: StoredEntry,
  all: readonly StoredEntry[],
  vms: readonly GrantedVm[],
): string[] {
  const place = accountOf(entry);
  const rivals = all.filter((each) => each.provider === entry.provider && accountOf(each) === place);
  return vms.filter(({ granted: { providers, labels } }) =>
    providers.includes(entry.provider) && chosenOf(rivals, entry.provider, labels)?.ref === entry.ref
  ).map(({ name }) => name);
}

/** The account at a server that a key logs in to; the same for all other keys. */
function accountOf({ hosts, database, ssh }: StoredEntry): string {
  if (ssh) return JSON.stringify(ssh.servers.map(({ host, user }) => [host, user]));
  return database ? JSON.stringify([hosts, database.user, database.name]) : "";
}

function requireNoKey(field: "label" | "host" | "program", text: string): void {
  if (!looksSecret(text)) return;
  throw new SbxError("credential.invalid", `the ${field} looks like a key, and lists would show it`, {
    hint: field === "program"
      ? "let the program read the key from a file or a vault, or give it as the secret"
      : `give the key as the secret, and another ${field}`,
  });
}

/** An entry without its secret, sealed or not. */
export function credentialView(
  { sealed: _, vms: __, decoy, subscription, kind, ...rest }: StoredEntry,
  problem?: string,
  used_by: readonly string[] = [],
): CredentialView {
  return {
    ...rest,
    kind: subscription ? "subscription" : kind ?? "key",
    decoy: decoy === true,
    ...(problem !== undefined && { problem }),
    ...(used_by.length > 0 && { used_by: [...used_by] }),
  };
}

/** True for an entry that a person can use: not the token that renews a login. */
export function isShown({ subscription }: StoredEntry): boolean {
  return subscription?.part !== "refresh";
}

/** `.env`, `.env.local`, `prod.env`. */
const DOT_ENV = /^\.env(\..+)?$|\.env$/i;

/**
 * Replaces the secrets among requested variables by refs. The secrets are stored for this VM; no guest and no
 * record has them.
 *
 * @throws {SbxError} as {@linkcode capture}
 */
export async function withoutSecrets(
  home: Home,
  vm: string,
  env: Record<string, string>,
): Promise<Record<string, string>> {
  const candidates = Object.entries(env).filter(([, value]) => value.length >= SECRET_MIN);
  if (candidates.length === 0) return env;
  const { texts } = await capture(
    home,
    vm,
    "a variable",
    candidates.map(([name, value]) => `${name}=${value}`),
  );
  const clean = candidates.map(([name], at) => [name, texts[at].slice(name.length + 1)]);
  return { ...env, ...Object.fromEntries(clean) };
}

/** Tests whether a path of a workspace names a file of variables. */
export function isDotEnv(path: string): boolean {
  return DOT_ENV.test(basename(path));
}

/**
 * Replaces the secrets of a `.env` file by refs, as {@linkcode withoutSecrets} does for variables. Other
 * bytes stay as they are, whatever their encoding.
 *
 * @returns the file, and the number of replaced secrets
 * @throws {SbxError} as {@linkcode capture}
 */
export async function dotEnvWithoutSecrets(
  home: Home,
  vm: string,
  file: Uint8Array,
): Promise<{ file: Uint8Array; captured: number }> {
  if (file.length < SECRET_MIN) return { file, captured: 0 };
  const text = Buffer.from(file.buffer, file.byteOffset, file.byteLength).toString("latin1");
  const { texts: [clean], captured } = await capture(home, vm, "the file", [text]);
  return { file: captured > 0 ? Buffer.from(clean, "latin1") : file, captured };
}

/**
 * @param what the place of the secrets, for errors
 * @throws {SbxError} `credential.unreadable`: a secret cannot be stored; `credential.limit`: more secrets
 * than a VM may bring
 */
async function capture(
  home: Home,
  vm: string,
  what: string,
  texts: string[],
): Promise<{ texts: string[]; captured: number }> {
  let problem: SbxError | undefined;
  const store = new CredentialStore(storePath(home));
  const broker = await CredentialBroker.open({
    store,
    providers: [],
    vm,
    onError: (error) => problem = error,
  });
  try {
    const clean = texts.map((text) => broker.captureDotEnv(text));
    const substitutions = clean.flatMap(({ substitutions }) => substitutions);
    await broker.flush();
    problem = broker.broken ?? problem;
    if (substitutions.length > 0 && problem) {
      throw new SbxError(
        "credential.unreadable",
        `${what} holds a secret, and the credential store cannot be used`,
        { cause: problem, hint: problem.message },
      );
    }
    if (substitutions.some(({ outcome }) => outcome === "error")) {
      throw new SbxError(
        "credential.limit",
        `${what} holds more secrets than a VM may bring (${CAPTURED_MAX})`,
        {
          hint: "add the keys that the VM needs: sbx credentials add PROVIDER",
        },
      );
    }
    return { texts: clean.map(({ text }) => text), captured: substitutions.length };
  } finally {
    await broker.close();
  }
}

/** Clients that add a file to their own authorities; the others read a bundle in place of these. */
const ADDING = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];
/** Variables that name the authorities of common clients. */
const TRUST: Record<string, string> = Object.fromEntries(
  TRUST_VARIABLES.map((name) => [name, ADDING.includes(name) ? CA_PATH : TRUST_BUNDLES[0]]),
);

/**
 * The certificate of this machine's CA for a guest, and the variables that make its programs trust it.
 *
 * @throws {SbxError} `ca.insecure`, `ca.missing`, `ca.invalid`: no VM starts with a CA that others can read
 */
export async function guestTrust(home: Home): Promise<{ env: Record<string, string>; file: BootFile }> {
  const { certificate } = await openCa(home);
  const content = new TextEncoder().encode(certificate).toBase64();
  return { env: TRUST, file: { path: CA_PATH, content, mode: 0o644 } };
}

/**
 * Variables and files with the refs of granted credentials, and the VM's
 * placeholders; none if the store has none.
 */
export async function guestRefs(
  home: Home,
  vm: string | undefined,
  granted: Granted,
): Promise<{ env: Record<string, string>; files: BootFile[] }> {
  const store = new CredentialStore(storePath(home));
  if (granted.providers.length === 0 || store.list().length === 0) return { env: {}, files: [] };
  const broker = await CredentialBroker.open({ store, ...granted, ...(vm !== undefined && { vm }) });
  try {
    const files = broker.guestFiles().map(({ path, text }) => ({
      path,
      content: new TextEncoder().encode(text).toBase64(),
      mode: 0o600,
    }));
    return { env: broker.guestEnv(), files: [...files, ...await knownHosts(home, broker.sshPlaces())] };
  } finally {
    await broker.close();
  }
}
