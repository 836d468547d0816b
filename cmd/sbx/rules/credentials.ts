import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { readMoment } from "../../../lib/base/moment/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import type {
  AuditRow,
  CredentialAdded,
  CredentialAudit,
  CredentialUse,
  CredentialView,
  ProviderList,
  ProviderView,
} from "../../../lib/client/api/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { table, usageError, UTC_NOTE } from "../output.ts";
import {
  CLOUD_OPTIONS,
  type CloudIdentity,
  identityMissing,
  readIdentities,
  withCloudSwitches,
} from "./cloud.ts";
import { KEEP } from "./keep.ts";
import { ORIGIN_OPTIONS, originOf } from "./origin.ts";
import { fetchCredentials, findRef, shortRef } from "./ref.ts";
import { readAwsKeys, readSecret } from "./secret.ts";
import { namesSigning, readSigning, SIGNING_OPTIONS } from "./signing.ts";

const ADD: Command = {
  name: "credentials add",
  usage: "PROVIDER [--host HOST] [--custom --header HEADER …] [OPTIONS] [-- COMMAND …]",
  summary: "add a key, read from the terminal or standard input",
  options: [
    { name: "label", value: "TEXT", about: "label of the credential" },
    {
      name: "host",
      value: "HOST",
      about:
        "host that may receive it: for mcp, a service that runs on hosts of its users, or --custom (repeatable)",
      many: true,
    },
    { name: "custom", about: "add a provider that sbx does not know, under this name" },
    {
      name: "header",
      value: "HEADER",
      about:
        'with --custom: header that carries the key, as "x-api-key" or "authorization: bearer" (repeatable)',
      many: true,
    },
    {
      name: "query",
      value: "NAME",
      about: "with --custom: query parameter that carries it (repeatable)",
      many: true,
    },
    {
      name: "basic",
      value: "user|password",
      about: "with --custom: half of a Basic header that is the key",
      many: true,
    },
    {
      name: "prefix",
      value: "TEXT",
      about: "with --custom: beginning of its keys, as acme_, by which they are found (repeatable)",
      many: true,
    },
    {
      name: "env",
      value: "NAME",
      about: "with --custom: variable in which VMs find its ref (repeatable)",
      many: true,
    },
    ...ORIGIN_OPTIONS,
    {
      name: "user",
      value: "USER",
      about: "with ssh: user to log in as, by default git; with a database: the only user of the password",
    },
    { name: "database", value: "NAME", about: "the only database that the password is for" },
    { name: "tls", value: "off", about: "reach a database of this machine without TLS" },
    { name: "md5", about: "let an old PostgreSQL ask for an MD5 hash of the password" },
    ...SIGNING_OPTIONS,
    {
      name: "host-key",
      value: "KEY",
      about: "with ssh: key that the server may have (repeatable); default: the ones in known_hosts",
      many: true,
    },
    ...CLOUD_OPTIONS,
    { name: "decoy", about: "create a key that grants no access; any use of it raises a finding" },
    JSON_OPTION,
  ],
  // More words are read, so that the error explains where keys are typed and repeats none, however short.
  words: { min: 1, max: 64 },
  program: true,
  completes: ["providers"],
  examples: [
    "sbx credentials add anthropic",
    "sbx credentials add github --program -- op read op://Private/GitHub/token",
    "sbx credentials add github --label work < token.txt",
    "sbx credentials add gitlab --host gitlab.example.com",
    "sbx credentials add postgres --host db.example.com:5432 --user app",
    "sbx credentials add aws --profile work --role arn:aws:iam::123456789012:role/agent",
    "sbx credentials add ssh --host github.com --key ~/.ssh/id_ed25519",
    "sbx credentials add signing --key ~/.ssh/id_ed25519",
    "sbx credentials add gcp --service-account key.json",
    "sbx credentials add azure --tenant TENANT --client-id ID --resource vault",
    "sbx credentials add mcp --host mcp.example.com",
    "sbx credentials add --custom acme --host api.acme.example --header x-acme-key --env ACME_API_KEY",
  ],
  run: add,
};

export const command: CommandGroup = {
  name: "credentials",
  summary: "manage API keys, which VMs use without having them",
  subcommands: [
    {
      name: "credentials list",
      usage: "[--json]",
      summary: "list credentials, without their secrets",
      options: [JSON_OPTION],
      examples: ["sbx credentials list"],
      run: list,
    },
    ADD,
    {
      name: "credentials providers",
      usage: "[PROVIDER] [--json]",
      summary: "list the providers whose keys sbx keeps, or the facts about one",
      options: [JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["providers"],
      examples: ["sbx credentials providers", "sbx credentials providers gitlab"],
      run: providers,
    },
    KEEP,
    {
      name: "credentials revoke",
      usage: "REF [--json]",
      summary: "revoke a credential; the first digits of its ref are enough",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["credentials"],
      examples: ["sbx credentials revoke 3f9a12cd"],
      run: revoke,
    },
    {
      name: "credentials audit",
      usage: "[--vm NAME] [--since TIME] [--ref REF] [--each] [--limit N] [--json]",
      summary: "count uses of credentials by VM, host and place, including refused ones",
      notes: [UTC_NOTE],
      options: [
        { name: "vm", value: "NAME", about: "only VMs of this name, deleted or not", completes: "vms" },
        {
          name: "since",
          value: "TIME",
          about: "only from this time on: 2h ago, 14:05 or 2026-11-22T10:30Z",
        },
        { name: "each", about: "list each use, the latest first" },
        { name: "ref", value: "REF", about: "only this credential", completes: "credentials" },
        { name: "limit", value: "N", about: "with --each: number of the latest uses; default 100" },
        JSON_OPTION,
      ],
      examples: [
        "sbx credentials audit",
        "sbx credentials audit --vm demo --since 2h",
        "sbx credentials audit --each --limit 20",
      ],
      run: audit,
    },
  ],
};

const KEY_HINT =
  "a key is not an argument, which other programs and the shell's history could read; sbx prompts for it";

async function list(args: Arguments): Promise<number> {
  const answer = await fetchCredentials(await connect());
  if (args.has("json")) await printJson(answer);
  else if (answer.credentials.length === 0) {
    await print("no credentials; add one with sbx credentials add PROVIDER");
  } else {
    await print(
      table(["REF", "PROVIDER", "LABEL", "FROM", "SINCE", "USED BY", ""], answer.credentials.map(row)),
    );
  }
  return 0;
}

function row(
  {
    ref,
    provider,
    label,
    hosts,
    custom,
    origin,
    problem,
    database,
    ssh,
    signing,
    kind,
    source,
    created_at,
    decoy,
    revoked_at,
    used_by = [],
  }: CredentialView,
): string[] {
  const { user, name, tls } = database ?? {};
  const users = ssh && [...new Set(ssh.servers.map((server) => server.user))].join(", ");
  const terms = [
    (user ?? users) && `as ${user ?? users}`,
    ssh?.agent && "by an agent",
    name && `in ${name}`,
    tls && "without TLS",
  ].filter(Boolean).join(" ");
  const named = hosts ?? custom?.hosts;
  const marks = [
    kind === "key" ? "" : kind,
    terms,
    origin?.program ? confinementOf(origin) : "",
    signing ? `${signing.fingerprint}${signing.emails ? ` of ${signing.emails.join(" ")}` : ""}` : "",
    decoy ? "decoy" : "",
    named ? `for ${named.join(" ")}` : "",
    revoked_at ? "revoked" : "",
    problem ?? "",
  ];
  return [
    shortRef(ref),
    provider,
    label ?? "",
    origin ? fromOf(origin) : signing && signing.from !== "key" ? signing.from : source,
    created_at.slice(0, 10),
    used_by.join(" "),
    marks.filter(Boolean).join(", "),
  ];
}

/** Rights of the program of a secret. */
function confinementOf({ confine }: NonNullable<CredentialView["origin"]>): string {
  if (!confine) return "not confined";
  const more = [...confine.read ?? [], ...(confine.network ? ["the network"] : [])];
  return `confined${more.length > 0 ? ` but for ${more.join(" ")}` : ""}`;
}

/** Where a secret comes from that is not stored. */
function fromOf({ program, env, cloud }: NonNullable<CredentialView["origin"]>): string {
  if (!cloud) return program?.[0] ?? `$${env}`;
  if (cloud.kind === "aws") return cloud.role_arn ?? `profile ${cloud.profile}`;
  return cloud.kind === "azure" ? `${cloud.client_id} (${cloud.resource})` : cloud.email ?? cloud.from;
}

async function add(args: Arguments): Promise<number> {
  const [provider, ...more] = args.words;
  const origin = originOf(ADD, args);
  if (more.length > 0 || args.program && !origin) {
    throw usageError(ADD, "unexpected argument after the provider", KEY_HINT);
  }
  const decoy = args.has("decoy");
  const client = await connect();
  const custom = customOf(args);
  const [host, ...others] = custom ? [] : args.list("host");
  if (others.length > 0) {
    throw usageError(ADD, "several hosts", "name one with each key; --custom takes several");
  }
  const known = custom ? [] : await fetchProviders(client);
  const definition:
    | Pick<ProviderView, "id" | "hosts" | "signed_hosts" | "ssh" | "commits" | "cloud_hosts">
    | undefined = custom ? { id: provider, hosts: custom.hosts } : findProvider(known, provider);
  if (!definition) {
    throw usageError(
      ADD,
      "unknown provider",
      nearProvider(known, provider) ??
        "sbx credentials providers lists them, and sbx prompts for the key; for another service: --custom NAME " +
          "--host HOST --header HEADER",
    );
  }
  const isSigning = definition.signed_hosts !== undefined;
  const isAnywhere = isSigning || definition.commits || definition.cloud_hosts;
  if (definition.hosts.length === 0 && !isAnywhere && host === undefined) {
    throw usageError(ADD, `a credential for ${definition.id} needs --host HOST`);
  }
  if (!definition.ssh && args.has("host-key")) {
    throw usageError(ADD, `--host-key is for ssh, and not for ${definition.id}`);
  }
  if (namesSigning(args, definition.ssh !== undefined) && !definition.commits) {
    throw usageError(
      ADD,
      `keys of ${definition.id} sign no commits`,
      "sbx credentials add signing --key FILE",
    );
  }
  const signing = definition.commits ? await readSigning(args) : undefined;
  // Loaded with the first SSH key.
  const ssh = definition.ssh && await (await import("./ssh_key.ts")).readSshKey(args, host!);
  const identities = await readIdentities(args, definition.id);
  if (identities.length > 0 && (decoy || origin)) throw usageError(ADD, "two secrets for one key");
  const isGiven = decoy || origin !== undefined || identities.length > 0;
  if (definition.cloud_hosts && !isGiven) throw identityMissing(definition.id);
  // The service generates the key of a decoy.
  const secret = ssh
    ? ssh.secret
    : signing
    ? signing.secret
    : isGiven
    ? undefined
    : isSigning
    ? await readAwsKeys()
    : await readSecret(`${definition.id} key`);
  const json = {
    provider: definition.id,
    secret,
    label: args.text("label"),
    host,
    ...(custom && { custom }),
    ...(origin && { origin }),
    ...(decoy && { decoy }),
    ...(ssh ? { ssh: ssh.ssh } : databaseTerms(args)),
    ...(signing && { signing: signing.signing }),
  };
  const send = (identity?: CloudIdentity) =>
    client.json<CredentialAdded>("POST", "/credentials/add", { json: { ...json, ...identity } }).catch(
      (error) => {
        throw custom ? withSwitches(error, custom) : withCloudSwitches(error);
      },
    );
  for (const identity of identities.slice(1)) await send(identity);
  const added = await send(identities[0]);
  await (args.has("json") ? printJson(added) : print(added.ref));
  if (args.has("json")) return 0;
  for (const vm of added.running) note(reachLine(vm));
  if (custom && added.running.length === 0) note(grantText(definition.id, custom));
  return 0;
}

/** Lines for the profile whose VMs are to use a key of an added provider. */
function grantText(id: string, custom: Record<string, string[]>): string {
  const places = Object.entries(custom).map(([name, list]) => `  ${name} = ${JSON.stringify(list)}`);
  return [
    "VMs use it whose profile has:",
    "  [credentials]",
    `  providers = ["${id}"]`,
    `  [credentials.custom.${id}]`,
    ...places,
  ].join("\n");
}

/** Hosts and lists of places. */
type CustomPlaces = { hosts: string[] } & Record<string, string[]>;

/** Hosts and places of a provider that sbx does not know; `undefined` without `--custom`. */
function customOf(args: Arguments): CustomPlaces | undefined {
  const places = { headers: args.list("header"), queries: args.list("query"), basic: args.list("basic") };
  const given = { ...places, env: args.list("env"), prefixes: args.list("prefix") };
  const some = Object.fromEntries(Object.entries(given).filter(([, list]) => list.length > 0));
  if (!args.has("custom")) {
    if (Object.keys(some).length === 0) return undefined;
    throw usageError(ADD, "places of a key without --custom", "sbx knows where keys of its providers travel");
  }
  if (args.list("host").length === 0 || Object.values(places).every((list) => list.length === 0)) {
    throw usageError(ADD, "--custom needs --host HOST, and --header HEADER or another place of the key");
  }
  return { hosts: args.list("host"), ...some };
}

/** Switches of the lists of a provider that a person adds. */
const SWITCHES: Record<string, string> = {
  hosts: "--host",
  headers: "--header",
  queries: "--query",
  basic: "--basic",
  env: "--env",
  prefixes: "--prefix",
};

/**
 * An error about fields of the request, with the switches that they come from. Values
 * may be a key: none is repeated.
 */
export function withSwitches(error: unknown, custom: Readonly<Record<string, readonly string[]>>): unknown {
  if (!(error instanceof SbxError)) return error;
  const named = (whole: string, list: string, at?: string) => {
    if (!Object.hasOwn(SWITCHES, list)) return whole;
    const isOne = at === undefined || (custom[list]?.length ?? 0) < 2;
    return isOne ? SWITCHES[list] : `${SWITCHES[list]} (number ${Number(at) + 1})`;
  };
  const message = error.message.replace(/\bcustom\.([a-z]+)(?:\[(\d+)\])?/g, named);
  return new SbxError(error.code, message, { ...(error.hint && { hint: error.hint }) });
}

function databaseTerms(args: Arguments): { database?: CredentialView["database"] } {
  const [user, name, tls] = [args.text("user"), args.text("database"), args.text("tls")];
  if (tls !== undefined && tls !== "off") {
    throw usageError(ADD, "--tls takes off alone", "without the option, TLS is used and verified");
  }
  const database = {
    ...(user !== undefined && { user }),
    ...(name !== undefined && { name }),
    ...(tls && { tls: "off" as const }),
    ...(args.has("md5") && { md5: true as const }),
  };
  return Object.keys(database).length > 0 ? { database } : {};
}

/** Line about a running VM that may use a new credential. */
function reachLine({ name, variables, problem }: CredentialAdded["running"][number]): string {
  if (problem !== undefined) return `${name}: uses it from its next start, since ${problem}`;
  const has = variables.length > 0 ? ` and find its ref in ${variables.join(", ")}` : "";
  return `${name}: programs that start from now on may use it${has}; running ones keep their variables`;
}

async function providers(args: Arguments): Promise<number> {
  const all = await fetchProviders(await connect());
  const [word] = args.words;
  const one = word === undefined ? undefined : findProvider(all, word);
  if (word !== undefined && !one) {
    throw new SbxError("credential.not_found", "no such provider", {
      hint: nearProvider(all, word) ?? "sbx credentials providers lists them",
    });
  }
  if (args.has("json")) await printJson(one ?? { providers: all });
  else if (one) await print(table(["", ""], factsOf(one)));
  else {
    const headings = ["PROVIDER", "TITLE", "HOSTS", "PLACES"];
    await print(table(headings, all.map((each) => [each.id, each.title, hostsOf(each), placesOf(each)])));
  }
  return 0;
}

function hostsOf(
  { hosts: sent, signed_hosts = [], cloud_hosts = [], named_hosts = [] }: ProviderView,
): string {
  const hosts = [...sent, ...signed_hosts, ...cloud_hosts];
  const named = named_hosts.map((host) => host === "*" ? "the host named with --host" : `${host} (--host)`);
  const shown = hosts.length > 3 ? [...hosts.slice(0, 2), `${hosts.length - 2} more`] : hosts;
  return [...shown, ...named].join(", ");
}

function placesOf({ headers = [], basic = [], queries = [], paths = [] }: ProviderView): string {
  return [
    ...headers,
    ...basic.map((half) => `basic ${half}`),
    ...queries.map((name) => `?${name}=`),
    ...paths,
  ]
    .join(", ");
}

/** Everything about one provider, a line for each fact. */
function factsOf(provider: ProviderView): string[][] {
  const { id, title, hosts, named_hosts = [], never = [], token_endpoints = [], env = [], files = [] } =
    provider;
  const { prefixes, models, not_yet = "", docs, checked, from } = provider;
  const facts: [string, string][] = [
    ["provider", `${id}: ${title}`],
    ["hosts", [...hosts, ...named_hosts.map((host) => `${host} (--host)`)].join(", ")],
    ["signed requests to", (provider.signed_hosts ?? []).join(", ")],
    ["tokens to", (provider.cloud_hosts ?? []).join(", ")],
    ["never", never.join(", ")],
    ["places", placesOf(provider)],
    ["token endpoints", token_endpoints.join(", ")],
    ["variables", env.join(", ")],
    ["files", files.join(", ")],
    ["keys begin with", prefixes.join(", ")],
    ["models", models ? `${models.provider} (${models.apis.join(", ")})` : ""],
    ["SSH", provider.ssh ? `port ${provider.ssh.port}` : ""],
    ["database", provider.database ? `port ${provider.database.port}` : ""],
    ["not yet", not_yet],
    ["source", from ?? (checked ? `${docs}, read on ${checked}` : `${docs}, not checked`)],
  ];
  return facts.filter(([, fact]) => fact !== "");
}

/** The word may be a key, and is never shown. */
function nearProvider(providers: readonly ProviderView[], word: string): string | undefined {
  return didYouMean(word, providers.map(({ id }) => id));
}

function findProvider(providers: readonly ProviderView[], word: string): ProviderView | undefined {
  return providers.find(({ id, aliases }) => id === word || aliases?.includes(word));
}

async function fetchProviders(client: Client): Promise<ProviderView[]> {
  return (await client.json<ProviderList>("GET", "/credentials/providers")).providers;
}

async function revoke(args: Arguments): Promise<number> {
  const client = await connect();
  const ref = await findRef(client, args.words[0]);
  const revoked = await client.json<CredentialView>("DELETE", `/credentials/${encodeURIComponent(ref)}`);
  await (args.has("json") ? printJson(revoked) : print(`revoked ${revoked.ref}`));
  return 0;
}

async function audit(args: Arguments): Promise<number> {
  const limit = args.number("limit", { min: 1, max: 1000 });
  const text = args.text("since");
  const since = text && await readMoment("since", text, { now: Date.now() });
  const client = await connect();
  const ref = args.text("ref") === undefined ? undefined : await findRef(client, args.text("ref")!);
  const query = { ref, limit, since, vm: args.text("vm") };
  const answer = await client.json<CredentialAudit>("GET", "/credentials/audit", { query });
  if (args.has("json")) await printJson(answer);
  else if (answer.rows.length === 0) {
    const vm = args.text("vm");
    await print(`no uses of credentials${vm === undefined ? "" : ` on record for a VM or session ${vm}`}`);
  } else if (!args.has("each") && limit === undefined) {
    const headings = ["VM", "CREDENTIAL", "HOST", "PLACE", "OUTCOME", "COUNT", "FIRST", "LAST", "REASON"];
    await print(table(headings, answer.uses.map(useRow)));
    if (answer.uses_truncated) note("more uses differ; --vm and --since select some");
  } else {
    const headings = ["TIME", "OUTCOME", "PROVIDER", "REF", "HOST", "LOCATION", "REASON"];
    await print(table(headings, answer.rows.map(auditRow)));
  }
  for (const id of answer.unreadable) {
    note(`the record of session ${id} cannot be read: sbx verify ${id} says why`);
  }
  return 0;
}

function useRow(use: CredentialUse): string[] {
  const { vm, session_id, provider, credential_ref, login, label, host, location, outcome, reason } = use;
  return [
    vm ?? session_id,
    [login ?? provider, label ?? shortRef(credential_ref)].join(" "),
    host ?? "",
    location ?? "",
    outcome,
    String(use.count),
    timeText(use.first_unix_ms),
    timeText(use.last_unix_ms),
    reason ?? "",
  ];
}

function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

function auditRow(
  { timestamp_unix_ms, outcome, provider, credential_ref, host, location, reason }: AuditRow,
): string[] {
  return [
    timeText(timestamp_unix_ms),
    outcome,
    provider,
    shortRef(credential_ref),
    host ?? "",
    location ?? "",
    reason ?? "",
  ];
}
