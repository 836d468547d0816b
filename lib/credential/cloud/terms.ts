/**
 * Identities at a cloud whose tokens the host obtains (docs/design/contracts/09-credentials.md §9, "Clouds").
 */
import { hostTest } from "../catalogue.ts";
import RESOURCES_JSON from "./resources.json" with { type: "json" };

/** An identity at Google Cloud; none of it is secret. */
export interface GcpTerms {
  kind: "gcp";
  /** of the file that a person gave */
  from: "service_account" | "authorized_user" | "impersonated_service_account";
  /** of the service account whose tokens they are; absent for a person's */
  email?: string;
  project?: string;
  scopes: string[];
}

/** An application at Azure, and one of the services that it uses. */
export interface AzureTerms {
  kind: "azure";
  tenant: string;
  client_id: string;
  /** word of {@linkcode RESOURCES} */
  resource: string;
}

/**
 * An identity at AWS: a profile of the host's own configuration, a role, or the
 * role that such a profile takes.
 */
export interface AwsTerms {
  kind: "aws";
  /**
   * section of the files that AWS's clients read on the host; absent: the store
   * has the key that takes the role
   */
  profile?: string;
  role_arn?: string;
  /** that the role's owner demands of who takes it */
  external_id?: string;
  /** where the role is taken; absent: as the profile says */
  region?: string;
}

export type CloudTerms = GcpTerms | AzureTerms | AwsTerms;

interface Resource {
  title: string;
  /** for which a token is issued */
  audience: string;
  /** other names of it */
  also: string[];
  /** the only hosts that its tokens go to */
  hosts: string[];
}

/** Services of Azure by the word that a person names. */
export const RESOURCES: Readonly<Record<string, Resource>> = RESOURCES_JSON;

/** Tests whether tokens of an identity may go to a host. */
export function isCloudHost(terms: CloudTerms | undefined, host: string): boolean {
  if (terms?.kind !== "azure") return true;
  const resource = Object.hasOwn(RESOURCES, terms.resource) ? RESOURCES[terms.resource] : undefined;
  return resource?.hosts.some((pattern) => hostTest(pattern)(host)) ?? false;
}

/**
 * Words of the services that a guest may mean by a resource, as
 * `https://vault.azure.net` or one vault's own address.
 */
export function resourcesNamed(text: string): string[] {
  const name = text.replace(/\/+(?:\.default)?$/, "").toLowerCase();
  const host = URL.parse(name)?.host;
  return Object.entries(RESOURCES).filter(([, { audience, also, hosts }]) =>
    [audience, ...also].includes(name) ||
    host !== undefined && name === `https://${host}` && hosts.some((pattern) => hostTest(pattern)(host))
  ).map(([word]) => word);
}
