/** Parts of an image that are from elsewhere than Debian's and npm's archives. */

/** A package of pip, cargo or go, or a Debian package of the profile's folder, as it was installed. */
export interface OwnPackage {
  kind: "pip" | "cargo" | "go" | "deb";
  name: string;
  version: string;
  /** `sha256:<hex>`, or Go's `h1:<base64>`; absent where a package is of the same bytes as another's */
  hash: string;
  license?: string;
}

/** A file of the profile's folder that is in an image, or has changed it. */
export interface OwnFile {
  /** its place in the image, or `script` */
  name: string;
  sha256: string;
}

/** What {@linkcode OwnPackage} is called in locks: `pip:requests@2.32.3`. */
export function ownKey({ kind, name, version }: OwnPackage): string {
  return `${kind}:${name}@${version}`;
}
