/**
 * Identities at clouds, from files and options of a command
 * (docs/design/contracts/09-credentials.md §9, "Clouds").
 */
import { join } from "node:path";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { CloudTerms } from "../../../lib/credential/mod.ts";
import { readAwsKeys, readSecret } from "./secret.ts";

/** Longest key file, in `bytes`; real ones have a few KB. */
const FILE_MAX = 64 * 1024;

export const CLOUD_OPTIONS: Option[] = [
  { name: "service-account", value: "FILE", about: "of gcp: key file of a service account" },
  {
    name: "adc",
    about: "of gcp: your own application default credentials (gcloud auth application-default login)",
  },
  {
    name: "scope",
    value: "URL",
    about: "of gcp: a scope of the tokens; default cloud-platform (repeatable)",
    many: true,
  },
  { name: "project", value: "ID", about: "of gcp: the project that programs of VMs use" },
  { name: "tenant", value: "ID", about: "of azure: the tenant of an application" },
  { name: "client-id", value: "ID", about: "of azure: the application; its secret is read as a key is" },
  {
    name: "certificate",
    value: "FILE",
    about: "of azure: PEM with its certificate and key, in place of a secret",
  },
  {
    name: "resource",
    value: "NAME",
    about:
      "of azure: management (default), graph, vault, storage, ai, foundry, monitor or config (repeatable)",
    many: true,
  },
  { name: "profile", value: "NAME", about: "of aws: a profile of your own AWS configuration, SSO too" },
  { name: "role", value: "ARN", about: "of aws: a role that the profile, or the key that is read, takes" },
  { name: "external-id", value: "TEXT", about: "of aws: text that the role's owner demands of who takes it" },
  { name: "region", value: "REGION", about: "of aws: where the role is taken; default: the profile's" },
];

/** Provider of each option. */
const OPTION_PROVIDERS: Record<string, string> = {
  "service-account": "gcp",
  adc: "gcp",
  scope: "gcp",
  project: "gcp",
  tenant: "azure",
  "client-id": "azure",
  certificate: "azure",
  resource: "azure",
  profile: "aws",
  role: "aws",
  "external-id": "aws",
  region: "aws",
};

/** Options by the names of their fields in requests. */
const SWITCHES: Record<string, string> = {
  tenant: "--tenant",
  client_id: "--client-id",
  resource: "--resource",
  scopes: "--scope",
  project: "--project",
  profile: "--profile",
  role_arn: "--role",
  external_id: "--external-id",
  region: "--region",
};

/** Options that name an identity, by the provider whose requests carry tokens alone. */
const IDENTITY_HINTS: Record<string, string> = {
  gcp: "give --service-account FILE, --adc, or a program that prints a token: --program -- COMMAND",
  azure: "give --tenant ID --client-id ID, and the application's secret, or --certificate FILE",
};

/** One identity, for one request to the service. */
export interface CloudIdentity {
  /** absent: the host's own configuration has the key */
  secret?: string;
  origin: { cloud: CloudTerms };
}

/**
 * Reads the identities that a command names.
 *
 * @param provider the provider's id
 * @returns none where the options name no identity
 * @throws {SbxError} `credential.invalid`, `args.invalid`
 */
export async function readIdentities(args: Arguments, provider: string): Promise<CloudIdentity[]> {
  const given = CLOUD_OPTIONS.map(({ name }) => name).filter((name) => args.has(name));
  if (given.length === 0) return [];
  const foreign = given.find((name) => OPTION_PROVIDERS[name] !== provider);
  if (foreign !== undefined) {
    throw new SbxError("credential.invalid", `${provider} takes no --${foreign}`, {
      hint: `--${foreign} goes with ${OPTION_PROVIDERS[foreign]}; sbx help credentials add lists the options`,
    });
  }
  if (provider === "aws") return [await readAwsIdentity(args)];
  return provider === "gcp" ? [await readGoogleIdentity(args)] : await readAzureIdentities(args);
}

/**
 * `credential.invalid`: a key is given where a provider needs an identity, since a token of a cloud ends
 * within the hour.
 */
export function identityMissing(provider: string): SbxError {
  return new SbxError("credential.invalid", `a credential of ${provider} needs an identity, and not a key`, {
    hint: IDENTITY_HINTS[provider] ?? "sbx help credentials add",
  });
}

/** An error about an identity, with the options that its fields come from. */
export function withCloudSwitches(error: unknown): unknown {
  if (!(error instanceof SbxError)) return error;
  const message = error.message.replace(
    /\borigin\.cloud\.([a-z_]+)(?:\[\d+\])?/g,
    (whole, field) => SWITCHES[field] ?? whole,
  );
  return new SbxError(error.code, message, { cause: error, ...(error.hint && { hint: error.hint }) });
}

/** @throws {SbxError} `credential.invalid`: neither a profile nor a role */
async function readAwsIdentity(args: Arguments): Promise<CloudIdentity> {
  const [profile, role_arn] = [args.text("profile"), args.text("role")];
  const [external_id, region] = [args.text("external-id"), args.text("region")];
  if (profile === undefined && role_arn === undefined) {
    throw new SbxError("credential.invalid", "name one identity at AWS", {
      hint: "give --profile NAME, --role ARN, or both",
    });
  }
  const cloud = {
    kind: "aws" as const,
    ...(profile !== undefined && { profile }),
    ...(role_arn !== undefined && { role_arn }),
    ...(external_id !== undefined && { external_id }),
    ...(region !== undefined && { region }),
  };
  if (profile !== undefined) return { origin: { cloud } };
  const { packRoleKeys } = await import("../../../lib/credential/mod.ts");
  return { secret: packRoleKeys(await readAwsKeys(), role_arn!), origin: { cloud } };
}

/** @throws {SbxError} `credential.invalid`: neither a key file nor the default credentials, or both */
async function readGoogleIdentity(args: Arguments): Promise<CloudIdentity> {
  const file = args.text("service-account");
  if ((file === undefined) === !args.has("adc")) {
    throw new SbxError("credential.invalid", "name one identity at Google Cloud", {
      hint: "give --service-account FILE, or --adc",
    });
  }
  const { readGoogleFile } = await import("../../../lib/credential/mod.ts");
  const project = args.text("project");
  const { terms, secret } = readGoogleFile(await readFile(file ?? adcPath()), {
    scopes: args.list("scope"),
    ...(project !== undefined && { project }),
  });
  return { secret, origin: { cloud: terms } };
}

/**
 * One identity for each resource, since a token of Azure is good for one.
 * @throws {SbxError} `credential.invalid`: no tenant, or no application
 */
async function readAzureIdentities(args: Arguments): Promise<CloudIdentity[]> {
  const [tenant, client_id] = [args.text("tenant"), args.text("client-id")];
  if (tenant === undefined || client_id === undefined) {
    throw new SbxError("credential.invalid", "an application at Azure needs its tenant and its id", {
      hint: "give --tenant ID --client-id ID",
    });
  }
  const { packAzureCertificate, packAzureSecret } = await import("../../../lib/credential/mod.ts");
  const file = args.text("certificate");
  const text = file === undefined
    ? await readSecret("client secret of the application")
    : await readFile(file);
  const pack = file === undefined ? packAzureSecret : packAzureCertificate;
  const resources = args.list("resource");
  return await Promise.all((resources.length > 0 ? resources : ["management"]).map(async (resource) => ({
    secret: await pack(text, resource),
    origin: {
      cloud: {
        kind: "azure" as const,
        tenant: tenant.toLowerCase(),
        client_id: client_id.toLowerCase(),
        resource,
      },
    },
  })));
}

/** Where Google's programs keep application default credentials. */
function adcPath(): string {
  const { GOOGLE_APPLICATION_CREDENTIALS: named, CLOUDSDK_CONFIG: config, HOME: home = "/" } = Deno.env
    .toObject();
  return named || join(config || join(home, ".config", "gcloud"), "application_default_credentials.json");
}

async function readFile(path: string): Promise<string> {
  try {
    const { size } = await Deno.stat(path);
    if (size <= FILE_MAX) return await Deno.readTextFile(path);
  } catch (cause) {
    throw new SbxError("credential.invalid", `the key file ${path} cannot be read`, {
      cause,
      hint: "name the file that the cloud's console or program wrote",
    });
  }
  throw new SbxError("credential.invalid", `the key file ${path} is larger than ${FILE_MAX} bytes`, {
    hint: "name the file that the cloud's console or program wrote",
  });
}
