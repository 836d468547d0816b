/** Where the host puts the certificate that it signs with what it has inspected. */
export const CA_PATH = "/etc/sbx/ca.pem";

/** What Debian's programs trust, in one file, and where update-ca-certificates looks for more of it. */
const BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
const OWN = "/usr/local/share/ca-certificates/sbx.crt";

/**
 * Makes every program of the guest trust `pem`, instead of what was trusted here before. update-ca-certificates would
 * take seconds for the same under emulation; when a package runs it later it finds the certificate where it looks.
 *
 * @param root of the guest's files
 */
export async function trust(pem: string, root = ""): Promise<void> {
  const before = await Deno.readTextFile(root + OWN).catch(() => undefined);
  if (before === pem) return;
  // Added to, and not read: the file has 220 KB, and every boot comes by here.
  if (before === undefined) await Deno.writeTextFile(root + BUNDLE, pem, { append: true });
  else {
    const bundle = await Deno.readTextFile(root + BUNDLE);
    await Deno.writeTextFile(root + BUNDLE, bundle.replace(before, "") + pem);
  }
  await Deno.mkdir((root + OWN).slice(0, (root + OWN).lastIndexOf("/")), { recursive: true });
  await Deno.writeTextFile(root + OWN, pem);
}
