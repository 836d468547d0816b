/** Certificate authorities of `network.extra_ca_file`. */
import { isAbsolute } from "node:path";
import { SbxError } from "../error/mod.ts";

/** Limit of a file with authorities, in `bytes`: a whole system's authorities are a quarter of a MiB. */
const CA_FILE_MAX = 4 * 1024 * 1024;

/** Reads the certificates of a PEM file, in the form that TLS clients take. */
export async function readCaFile(path: string): Promise<string[]> {
  const text = await readText(path);
  if (!/-----BEGIN CERTIFICATE-----/.test(text)) {
    throw new SbxError("network.ca_file.invalid", `${path} holds no certificate`, {
      hint: "name a PEM file: each certificate begins with -----BEGIN CERTIFICATE-----",
    });
  }
  try {
    // The runtime's own reader, which will use them.
    Deno.createHttpClient({ caCerts: [text] }).close();
  } catch (cause) {
    throw new SbxError("network.ca_file.invalid", `a certificate in ${path} is damaged`, {
      cause,
      hint: `openssl x509 -in ${path} -noout -text shows the first one`,
    });
  }
  return [text];
}

async function readText(path: string): Promise<string> {
  if (!isAbsolute(path)) {
    throw new SbxError("network.ca_file.invalid", `"${path}" is not an absolute path`, {
      hint: "begin it with /",
    });
  }
  try {
    const { isFile, size } = await Deno.stat(path);
    if (isFile && size <= CA_FILE_MAX) return await Deno.readTextFile(path);
  } catch (cause) {
    const gone = cause instanceof Deno.errors.NotFound;
    throw new SbxError(
      gone ? "network.ca_file.not_found" : "network.ca_file.invalid",
      gone ? `there is no file ${path}` : `${path} cannot be read`,
      { cause, hint: "name a PEM file with certificates that you may read" },
    );
  }
  throw new SbxError(
    "network.ca_file.invalid",
    `${path} is not a file of certificates: it has more than ${CA_FILE_MAX} bytes or is not a regular file`,
  );
}
