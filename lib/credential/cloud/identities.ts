/** Identities at clouds that a VM may use. */
import { METADATA_ADDRESS } from "../../base/address/mod.ts";
import { isUsable } from "../choice.ts";
import type { StoredEntry } from "../entry.ts";
import type { Provider } from "../provider.ts";
import type { Vault } from "../vault.ts";
import type { CloudTerms } from "./terms.ts";

/** Credentials that a VM is granted, of each cloud the latest first. */
export interface Identities {
  gcp: readonly StoredEntry[];
  azure: readonly StoredEntry[];
}

export function identitiesOf(vault: Vault): Identities {
  const of = (provider: Provider) => {
    if (!vault.mayUse(provider, false)) return [];
    const entries = [...vault.active()].map(({ entry }) => entry).filter((entry) =>
      entry.provider === provider && isUsable(entry) && vault.leaves(entry)
    );
    return entries.toSorted((a, b) => b.created_at.localeCompare(a.created_at));
  };
  return { gcp: of("gcp"), azure: of("azure") };
}

/** Path at which a guest finds its identity as a program of Azure's App Service does. */
export const APP_SERVICE_PATH = "/msi/token";
/**
 * Header of App Service's clients, which shows that a program asks and no browser or proxy. As
 * `Metadata: true`, it is no secret: the host answers this VM alone.
 */
export const APP_SERVICE_HEADER = "sbx";

/**
 * Variables by which a cloud's clients find the host in place of a metadata server;
 * Azure's as they do in App Service.
 */
export function cloudEnv({ provider, origin }: StoredEntry): Record<string, string> {
  if (provider === "gcp") return googleEnv(origin?.cloud);
  if (origin?.cloud?.kind !== "azure") return {};
  return {
    IDENTITY_ENDPOINT: `http://${METADATA_ADDRESS}${APP_SERVICE_PATH}`,
    IDENTITY_HEADER: APP_SERVICE_HEADER,
  };
}

function googleEnv(cloud: CloudTerms | undefined): Record<string, string> {
  const project = cloud?.kind === "gcp" ? cloud.project : undefined;
  return {
    GCE_METADATA_HOST: METADATA_ADDRESS,
    ...(project !== undefined && { GOOGLE_CLOUD_PROJECT: project }),
  };
}
