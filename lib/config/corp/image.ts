/** OCI images that corp allows (docs/design/contracts/03-settings.md §3, "Corp limits"). */
import { SbxError } from "../../base/error/mod.ts";
import type { CorpState } from "./store.ts";

/** An image, by the names and digests that it has. */
interface NamedImage {
  /** canonical */
  reference: string;
  /** absent: not known yet */
  digest?: string;
  provenance?: { index_digest?: string };
}

/**
 * Refuses images that corp does not list. Entries are registries, repositories, and images pinned by digest; so an
 * image from a folder, an archive or a Docker daemon is refused. Before its digest is known, an image of a pinned
 * repository passes: it is checked again.
 *
 * @throws {SbxError} `corp.image` (403)
 */
export function requireCorpImage(state: CorpState, { reference, digest, provenance }: NamedImage): void {
  const images = "config" in state ? state.config.file.corp.limits?.images : undefined;
  if (images === undefined) return;
  const repository = reference.replace(/(@sha256:.*|:[^/:]*)$/, "");
  const pinned = /@(sha256:.*)$/.exec(reference)?.[1];
  const isAllowed = images.some((entry) => {
    const [name, pin] = entry.split("@");
    if (repository !== name && (pin !== undefined || !repository.startsWith(`${name.replace(/\/$/, "")}/`))) {
      return false;
    }
    return pin === undefined || (digest ?? pinned) === undefined ||
      [digest, pinned, provenance?.index_digest].includes(pin);
  });
  if (isAllowed) return;
  throw new SbxError(
    "corp.image",
    `corp does not allow the image ${reference}${digest ? ` (${digest})` : ""}`,
    {
      hint: images.length > 0 ? `corp allows ${images.slice(0, 10).join(", ")}` : "corp allows no image",
    },
  );
}
