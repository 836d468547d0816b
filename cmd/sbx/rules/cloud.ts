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

/** Options by the provider that takes them; azure takes the others. */
const PROVIDER_OPTIONS: Record<string, readonly string[]> = {
  gcp: ["service-account", "adc", "scope", "project"],
  aws: ["profile", "role", "external-id", "region"],
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
  const invalid = (problem: string, hint: string) => new SbxError("credential.invalid", problem, { hint });
  const ownerOf = (name: string) =>
    Object.keys(PROVIDER_OPTIONS).find((id) => PROVIDER_OPTIONS[id].includes(name)) ?? "azure";
  const stranger = given.find((name) => provider !== ownerOf(name));
  if (stranger !== undefined) throw invalid(`${provider} takes no --${stranger}`, "sbx help credentials add");
  if (provider === "aws") return [await readAwsIdentity(args)];
  if (provider === "gcp") {
    const file = args.text("service-account");
    if ((file === undefined) === !args.has("adc")) {
      throw invalid("name one identity at Google Cloud", "give --service-account FILE, or --adc");
    }
    const { readGoogleFile } = await import("../../../lib/credential/mod.ts");
    const project = args.text("project");
    const { terms, secret } = readGoogleFile(await readFile(file ?? adcPath()), {
      scopes: args.list("scope"),
      ...(project !== undefined && { project }),
    });
    return [{ secret, origin: { cloud: terms } }];
  }
  const [tenant, client_id] = [args.text("tenant"), args.text("client-id")];
  if (tenant === undefined || client_id === undefined) {
    throw invalid("an application at Azure needs its tenant and its id", "give --tenant ID --client-id ID");
  }
  const { packAzureCertificate, packAzureSecret } = await import("../../../lib/credential/mod.ts");
  const file = args.text("certificate");
  const text = file === undefined
    ? await readSecret("client secret of the application")
    : await readFile(file);
  const words = args.list("resource");
  return await Promise.all((words.length > 0 ? words : ["management"]).map(async (resource) => ({
    secret: file === undefined ? packAzureSecret(text, resource) : await packAzureCertificate(text, resource),
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

/**
 * Refuses a text in the place of an identity: a token of a cloud ends within the hour.
 * @throws {SbxError} `credential.invalid`
 */
export function requireIdentity(provider: string): never {
  throw new SbxError("credential.invalid", `a credential of ${provider} needs an identity, and not a key`, {
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
  return new SbxError(error.code, message, { ...(error.hint && { hint: error.hint }) });
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
