/** The place of corp.toml (docs/design/contracts/03-settings.md §3, "Corp file states"). */

/** Path of corp.toml as installed by device management. */
const MANAGED = "/etc/sbx/corp.toml";

/** Places that corp.toml may have. */
export interface CorpPlaces {
  /** file of device management; where root owns it, nothing replaces it */
  managed: string;
  /** file named by `SBX_CORP_CONFIG` */
  named?: string;
}

/** The place that holds now. */
export interface CorpPlace {
  path: string;
  /** true if a missing file is an error: someone named it, or it has just been there */
  isRequired: boolean;
}

/** Places of corp.toml in this environment. */
export function corpPlaces(env: { get(name: string): string | undefined } = Deno.env): CorpPlaces {
  const named = env.get("SBX_CORP_CONFIG");
  return { managed: MANAGED, ...(named && { named }) };
}

/**
 * Finds the place that holds: the managed file if it exists and root owns it, else the named one, else the managed one.
 * A managed file that cannot be looked at holds, because it may be root's.
 */
export async function findCorpPlace({ managed, named }: CorpPlaces): Promise<CorpPlace> {
  try {
    const { uid } = await Deno.lstat(managed);
    if (uid === 0 || named === undefined) return { path: managed, isRequired: true };
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
    if (!isMissing) return { path: managed, isRequired: true };
    if (named === undefined) return { path: managed, isRequired: false };
  }
  return { path: named, isRequired: true };
}
