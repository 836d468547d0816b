import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { runTool } from "./tool.ts";

/** Signs with one OpenPGP key, kept in a temporary folder for this object's lifetime. */
export interface Signer extends AsyncDisposable {
  fingerprint: string;
  /** binary */
  publicKey: Uint8Array;
  /** armoured signature beside a text */
  detach(text: string): Promise<string>;
  /** text with its signature around it */
  clear(text: string): Promise<string>;
}

const GPG = ["--batch", "--no-tty", "--quiet", "--pinentry-mode", "loopback"];

/**
 * Opens the secret key in a file: the user's own keys are neither used nor read.
 *
 * @throws {SbxError} `package.key_invalid`: it is not there, others can read it, or it holds no single secret key
 */
export async function openSigner(path: string): Promise<Signer> {
  await requirePrivate(path);
  const home = await Deno.makeTempDir({ prefix: "sbx-gpg-" });
  const run = (args: string[], doing: string) =>
    runTool(["gpg", "--homedir", home, ...GPG, ...args], { doing });
  const close = async () => {
    await runTool(["gpgconf", "--homedir", home, "--kill", "all"], { doing: "ending gpg-agent" }).catch(
      () => {},
    );
    await Deno.remove(home, { recursive: true });
  };
  try {
    await run(["--import", path], `reading the key ${path}`);
    const listed = new TextDecoder().decode(
      await run(["--with-colons", "--list-secret-keys"], `reading the key ${path}`),
    );
    const keys = [...listed.matchAll(/^sec:[^\n]*\n(?:grp:[^\n]*\n)?fpr:+([0-9A-F]+):/gm)].map(([, fpr]) =>
      fpr
    );
    if (keys.length !== 1) throw keyError(path, `it holds ${keys.length} secret keys, not one`);
    const [fingerprint] = keys;
    const sign = async (how: string, text: string) => {
      const input = join(home, "input");
      await Deno.writeTextFile(input, text);
      const args = [
        "--local-user",
        fingerprint,
        "--digest-algo",
        "SHA512",
        "--armor",
        "--output",
        "-",
        how,
        input,
      ];
      return new TextDecoder().decode(await run(args, "signing the index"));
    };
    return {
      fingerprint,
      publicKey: await run(["--export", fingerprint], "exporting the public key"),
      detach: (text) => sign("--detach-sign", text),
      clear: (text) => sign("--clear-sign", text),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function requirePrivate(path: string): Promise<void> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info?.isFile) throw keyError(path, "there is no such file");
  if ((info.mode! & 0o077) !== 0) throw keyError(path, "others can read it: chmod 600");
}

function keyError(path: string, reason: string): SbxError {
  return new SbxError("package.key_invalid", `the key ${path} cannot sign: ${reason}`, {
    hint: "gpg --batch --passphrase '' --quick-gen-key NAME ed25519 sign never makes one; " +
      "gpg --export-secret-keys NAME writes it",
  });
}
