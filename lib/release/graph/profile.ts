import { SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import { digestBytes, requireDigests } from "../digest.ts";
import type { RememberedProfile } from "../memory/schema.ts";
import type { ProfileEntry } from "../schema.ts";

/**
 * Verifies a profile document and finds the boot files that it pins. Reads nothing else of it: a profile for a newer sbx
 * can be revoked too.
 *
 * @throws {SbxError} `release.mismatch`, `release.invalid`
 */
export function readProfileDocument(bytes: Uint8Array, entry: ProfileEntry): RememberedProfile {
  const what = `profile ${entry.id} ${entry.revision}`;
  requireDigests(digestBytes(bytes), entry, what);
  const value = valueOf(bytes, what);
  if (value.id !== entry.id || value.revision !== entry.revision) {
    throw new SbxError("release.mismatch", `the document of ${what} is that of another profile or revision`, {
      hint: "the publisher must correct it; nothing was installed",
    });
  }
  const hashes = pinsOf(value).flatMap((pin) => /^blake3:([0-9a-f]{64})$/.exec(pin)?.[1] ?? []);
  return { id: entry.id, revision: entry.revision, blake3: entry.blake3, assets: [...new Set(hashes)] };
}

function valueOf(bytes: Uint8Array, what: string): Record<string, unknown> {
  const text = decodeUtf8(bytes);
  try {
    if (text !== undefined) return parseToml(text, what).value as Record<string, unknown>;
  } catch (cause) {
    if (!(cause instanceof SbxError)) throw cause;
  }
  throw new SbxError("release.invalid", `the document of ${what} is not TOML`, {
    hint: "the publisher must correct it; nothing was installed",
  });
}

/** `assets.arch.<arch>.<file>.hash` */
function pinsOf({ assets }: Record<string, unknown>): string[] {
  const children = (value: unknown) => isObject(value) ? Object.values(value) : [];
  return children(isObject(assets) ? assets.arch : undefined).flatMap(children).flatMap((file) =>
    isObject(file) && typeof file.hash === "string" ? [file.hash] : []
  );
}
