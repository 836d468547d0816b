/**
 * The installer for macOS: layout, entitlements, signatures, notarization. `make pkg` runs it alone;
 * `--dry-run` prints each command. No Mac has run it yet (docs/design/macos.md).
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ROLES } from "../../lib/publish/package/mod.ts";
import type { Runner } from "./runner.ts";

/** Names of secrets in the keychain: none of them is a secret itself. */
export interface MacCredentials {
  /** "Developer ID Application: …" */
  application: string;
  /** "Developer ID Installer: …" */
  installer: string;
  /** profile of notarytool */
  profile: string;
}

export interface MacParts {
  version: string;
  /** path of the program */
  program: string;
  /** path of the library that runs VMs (ffi/SbxVM) */
  library: string;
  /** working folder */
  work: string;
  /** path of the installer */
  out: string;
}

/** Longest wait for the platform vendor's answer, in `minutes` (docs/design/contracts/14-limits.md §14). */
const NOTARIZE_MINUTES = 30;
const IDENTIFIER = "dev.sbx.pkg";

/** V8 compiles at run time, native libraries are unpacked, and machines are started. */
const ENTITLEMENTS = fileURLToPath(new URL("../../ffi/SbxVM/sbx.entitlements", import.meta.url));

/** Checks the credentials, before anything is built. @throws {Error} names the one that is missing */
export async function macPreflight(
  runner: Runner,
  { application, installer, profile }: MacCredentials,
): Promise<void> {
  const identities = await runner.read({ argv: ["security", "find-identity", "-v"] });
  for (const identity of [application, installer]) {
    if (!runner.isDry && !identities.includes(`"${identity}"`)) {
      throw new Error(
        `the keychain has no valid identity "${identity}"; security find-identity -v lists them`,
      );
    }
  }
  const history = { argv: ["xcrun", "notarytool", "history", "--keychain-profile", profile] };
  if (!await runner.succeeds(history)) {
    throw new Error(
      `notarytool cannot sign in with the profile "${profile}"; xcrun notarytool store-credentials makes it`,
    );
  }
}

/** Lays the program out and signs it, then builds the signed installer. */
export async function macSign(runner: Runner, parts: MacParts, credentials: MacCredentials): Promise<void> {
  const { version, program, library, work, out } = parts;
  const bin = join(work, "root/usr/local/bin");
  await runner.run({ argv: ["install", "-d", "-m", "0755", bin] });
  await runner.run({ argv: ["install", "-m", "0755", program, join(bin, "sbx")] });
  for (const role of ROLES) await runner.run({ argv: ["ln", "-sfn", "sbx", join(bin, role)] });
  await runner.run({ argv: ["install", "-m", "0755", library, join(bin, "libsbxvm.dylib")] });
  const sign = [
    "codesign",
    "--force",
    "--timestamp",
    "--options",
    "runtime",
    "--sign",
    credentials.application,
  ];
  // Entitlements belong to the program that loads a library.
  await runner.run({ argv: [...sign, join(bin, "libsbxvm.dylib")] });
  await runner.run({ argv: [...sign, "--entitlements", ENTITLEMENTS, join(bin, "sbx")] });
  for (const signed of ["libsbxvm.dylib", "sbx"]) {
    await runner.run({ argv: ["codesign", "--verify", "--strict", "--verbose=2", join(bin, signed)] });
  }
  await runner.run({
    argv: [
      ...["pkgbuild", "--root", join(work, "root"), "--identifier", IDENTIFIER, "--version", version],
      ...["--ownership", "recommended", "--sign", credentials.installer, "--timestamp", out],
    ],
  });
  await runner.run({ argv: ["pkgutil", "--check-signature", out] });
}

/** Sends the installer to the platform vendor, waits, and staples the ticket to it. */
export async function macNotarize(runner: Runner, out: string, { profile }: MacCredentials): Promise<void> {
  await runner.run({
    argv: [
      ...["xcrun", "notarytool", "submit", out, "--keychain-profile", profile],
      ...["--wait", "--timeout", `${NOTARIZE_MINUTES}m`],
    ],
    limitMs: (NOTARIZE_MINUTES + 1) * 60_000,
  });
  await runner.run({ argv: ["xcrun", "stapler", "staple", out] });
  await runner.run({ argv: ["xcrun", "stapler", "validate", out] });
  await runner.run({ argv: ["spctl", "--assess", "--type", "install", "--verbose", out] });
}
