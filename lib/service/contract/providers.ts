/**
 * Providers of this home: the built-in ones, and those that corp and profiles add
 * (docs/design/contracts/09-credentials.md §9, "Added providers").
 */
import type { ProviderView } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { listProfiles } from "../../config/profile/mod.ts";
import { type CustomProvider, DEFINITIONS, type Provider } from "../../credential/mod.ts";

/** A provider of corp or of a profile. */
export interface AddedProvider {
  id: Provider;
  places: CustomProvider;
  /** `corp`, or `profile ID` */
  from: string;
}

/** Providers that corp and profiles add, corp's first; a profile of several ones that agree is named once. */
export async function addedProviders(
  home: Pick<Home, "profilesDir">,
  corp?: Pick<CorpStore, "state">,
): Promise<AddedProvider[]> {
  const state = corp?.state;
  const ofCorp = state && "config" in state ? Object.entries(state.config.file.corp.providers) : [];
  const ofProfiles = (await listProfiles(home)).flatMap((listed) =>
    "profile" in listed
      ? Object.entries(listed.profile.credentials.custom)
        .map(([id, places]) => ({ id, places, from: `profile ${listed.id}` }))
      : []
  );
  const all = [...ofCorp.map(([id, places]) => ({ id, places, from: "corp" })), ...ofProfiles];
  return [...new Map(all.toReversed().map((each) => [canonicalJson([each.id, each.places]), each])).values()]
    .toReversed();
}

/**
 * The places of an added provider.
 *
 * @returns `undefined` when nobody adds one of this id
 * @throws {SbxError} `credential.conflict`: two profiles differ about it
 */
export function findAdded(added: readonly AddedProvider[], id: Provider): AddedProvider | undefined {
  const [found, other] = added.filter((each) => each.id === id);
  if (!other) return found;
  throw new SbxError(
    "credential.conflict",
    `${found.from} and ${other.from} differ about the provider "${id}"`,
    {
      hint: "say where the key may go: sbx credentials add --custom NAME --host HOST --header HEADER",
    },
  );
}

/** Providers whose keys are brokered, with all that is known of them. */
export function providerViews(added: readonly AddedProvider[]): ProviderView[] {
  return [
    ...DEFINITIONS.map(({ keys = [], always: _, git: __, oauth: ___, ...rest }) => ({
      ...rest,
      prefixes: keys.map(({ prefix }) => prefix),
    })),
    ...added.map(({ id, places, from }) => ({ id, title: id, ...places, prefixes: [], from })),
  ];
}
