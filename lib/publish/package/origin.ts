import { SbxError } from "../../base/error/mod.ts";

/** Characters that the installer's shell script and JSON take as they are. */
const PLAIN = /^[A-Za-z0-9._~:/?#[\]@!&'()*+,;=%-]+$/;

/**
 * Text of a packaged `manifest-origin.json` (docs/design/contracts/10-release.md §10, "Manifest origin and
 * update"), one field a line: the installer reads it with sed.
 *
 * @throws {SbxError} `manifest.url.invalid`
 */
export function originText(
  { source, packaged_at, package_version }: { source: string; packaged_at: string; package_version: string },
): string {
  const url = URL.parse(source);
  const isRight = url !== null && ["https:", "file:"].includes(url.protocol) && !url.username &&
    !url.password;
  if (!isRight || !PLAIN.test(source)) {
    throw new SbxError("manifest.url.invalid", `the address "${source}" cannot be in a package`, {
      hint: "use https:// or file://, without a password: every user of the machine can read it",
    });
  }
  const origin = {
    schema: "sbx.manifest_origin.v1",
    origin: "package",
    source,
    packaged_at,
    package_version,
  };
  return JSON.stringify(origin, null, 2) + "\n";
}
