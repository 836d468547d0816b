import { ifFound } from "../../../lib/base/error/mod.ts";
/** Path of the host's CA certificate, which signs for inspected connections. */
export const CA_PATH = "/etc/sbx/ca.pem";

/** Bundle of certificates trusted by Debian's programs. */
const BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
/** Source of the certificate for update-ca-certificates. */
export const SOURCE = "/usr/local/share/ca-certificates/sbx.crt";

/**
 * Makes every program of the guest trust `pem`, in place of an earlier certificate of the host. Faster than
 * update-ca-certificates, which takes seconds under emulation; a later run by a package finds the certificate
 * in its source folder.
 *
 * @param root root of the guest's files
 */
export async function trust(pem: string, root = ""): Promise<void> {
  const before = await ifFound(Deno.readTextFile(root + SOURCE));
  if (before === pem) return;
  // Appended without reading the 220 KB file, since this is part of every boot.
  if (before === undefined) await Deno.writeTextFile(root + BUNDLE, pem, { append: true });
  else {
    const bundle = await Deno.readTextFile(root + BUNDLE);
    await Deno.writeTextFile(root + BUNDLE, bundle.replace(before, "") + pem);
  }
  await Deno.mkdir((root + SOURCE).slice(0, (root + SOURCE).lastIndexOf("/")), { recursive: true });
  await Deno.writeTextFile(root + SOURCE, pem);
}
