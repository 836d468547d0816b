/**
 * Key files of clouds, as their consoles and programs write them: their secret parts become one text for the
 * store, the others terms (docs/design/contracts/09-credentials.md §9, "Clouds").
 */
import { SbxError } from "../../base/error/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import { isSecret, SECRET_MAX } from "../form.ts";
import type { GcpTerms } from "./terms.ts";

/**
 * Where Google gives tokens for keys; a file that names another place would have its holder send them there.
 */
export const GOOGLE_TOKEN_URL = "https://oauth2.googleapis.com/token";
/** Other spellings of it in files of Google's programs. */
const GOOGLE_TOKEN_URLS = [
  GOOGLE_TOKEN_URL,
  "https://accounts.google.com/o/oauth2/token",
  "https://www.googleapis.com/oauth2/v4/token",
];
export const GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const EMAIL = /^[A-Za-z0-9._+-]{1,64}@[a-z0-9.-]{1,190}$/;
const PROJECT = /^(?:[a-z0-9.-]{1,63}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$/;
const IMPERSONATION =
  /^https:\/\/iamcredentials\.googleapis\.com\/v1\/projects\/-\/serviceAccounts\/([^/:]+):generateAccessToken$/;

export function invalidKey(problem: string, hint: string): SbxError {
  return new SbxError("credential.invalid", problem, { hint });
}

/**
 * Reads a key of a service account, or application default credentials.
 *
 * @returns the terms, and the secret as one text without spaces
 * @throws {SbxError} `credential.invalid`: nothing of the file is quoted
 */
export function readGoogleFile(
  text: string,
  { scopes = [], project }: { scopes?: string[]; project?: string } = {},
): { terms: GcpTerms; secret: string } {
  const hint =
    "give the JSON file of a service account's key, or that of gcloud auth application-default login";
  let file: Record<string, unknown>;
  try {
    file = objectOf(JSON.parse(text));
  } catch {
    throw invalidKey("the file is not JSON", hint);
  }
  requireGoogleUniverse(file);
  const named = project ?? textIn(file, "project_id") ?? textIn(file, "quota_project_id");
  const rest = {
    ...(named !== undefined && { project: named }),
    scopes: scopes.length > 0 ? scopes : [GOOGLE_SCOPE],
  };
  if (named !== undefined && !PROJECT.test(named)) {
    throw invalidKey("that is not an id of a project", "name it: --project ID");
  }
  switch (file.type) {
    case "service_account": {
      const email = textIn(file, "client_email");
      const pem = textIn(file, "private_key");
      if (email === undefined || !EMAIL.test(email) || pem === undefined) {
        throw invalidKey("the file has no client_email and private_key of a service account", hint);
      }
      const kid = textIn(file, "private_key_id");
      const secret = pack({ key: derOf(pem, "PRIVATE KEY", hint), ...(kid !== undefined && { kid }) });
      return { terms: { kind: "gcp", from: "service_account", email, ...rest }, secret };
    }
    case "authorized_user":
      return { terms: { kind: "gcp", from: "authorized_user", ...rest }, secret: pack(userKey(file, hint)) };
    case "impersonated_service_account": {
      const source = objectOf(file.source_credentials);
      const email = decodeEmail(
        IMPERSONATION.exec(textIn(file, "service_account_impersonation_url") ?? "")?.[1],
      );
      if (email === undefined || source.type !== "authorized_user") {
        throw invalidKey("the file impersonates no service account by a person's own login", hint);
      }
      if (Array.isArray(file.delegates) && file.delegates.length > 0) {
        throw invalidKey(
          "the file impersonates an account by others, which sbx does not do",
          "impersonate it directly",
        );
      }
      requireGoogleUniverse(source);
      const terms = { kind: "gcp" as const, from: "impersonated_service_account" as const, email, ...rest };
      return { terms, secret: pack(userKey(source, hint)) };
    }
    default:
      throw invalidKey("the file is of no kind that sbx knows", hint);
  }
}

/** Parses the text of {@linkcode readGoogleFile}. */
export function unpack(secret: string): Record<string, unknown> {
  try {
    return objectOf(JSON.parse(secret));
  } catch {
    return {};
  }
}

/** One text for the store. @throws {SbxError} `credential.invalid` */
export function pack(parts: Record<string, string>): string {
  const text = JSON.stringify(parts);
  if (isSecret(text)) return text;
  throw invalidKey(
    `the key is longer than ${SECRET_MAX} characters, or has others than visible ASCII`,
    "make a key of at most 4096 bits",
  );
}

/** Content of a block of PEM, in base64. @throws {SbxError} `credential.invalid` */
export function derOf(pem: string, name: string, hint: string): string {
  const body = new RegExp(`-----BEGIN ${name}-----([A-Za-z0-9+/=\\s]+)-----END ${name}-----`).exec(pem)?.[1];
  const text = body?.replace(/\s+/g, "");
  if (!text) throw invalidKey(`the file has no ${name} in PEM`, hint);
  return text;
}

function userKey(file: Record<string, unknown>, hint: string): Record<string, string> {
  const [client_id, client_secret, refresh_token] = ["client_id", "client_secret", "refresh_token"].map((
    name,
  ) => textIn(file, name));
  if (client_id === undefined || client_secret === undefined || refresh_token === undefined) {
    throw invalidKey("the file has no client and refresh token of a person", hint);
  }
  return { client_id, client_secret, refresh_token };
}

/** A file that leads elsewhere is not Google's own. */
function requireGoogleUniverse(file: Record<string, unknown>): void {
  const { token_uri, universe_domain } = file;
  if (token_uri !== undefined && !GOOGLE_TOKEN_URLS.includes(String(token_uri))) {
    throw invalidKey(
      "the token_uri of the file is not Google's: the key would be used to log in elsewhere",
      "make a new key in Google's console",
    );
  }
  if (universe_domain !== undefined && universe_domain !== "googleapis.com") {
    throw invalidKey(
      "the file is of another universe than googleapis.com",
      "use a key of Google Cloud itself",
    );
  }
}

function decodeEmail(text: string | undefined): string | undefined {
  const email = text?.replace("%40", "@");
  return email !== undefined && EMAIL.test(email) ? email : undefined;
}

function textIn(file: Record<string, unknown>, name: string): string | undefined {
  const value = file[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}
