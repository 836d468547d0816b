/** Keys of AWS as the store has them: `ID:SECRET` or `ID:SECRET:TOKEN`, one secret of its own. */
import { isObject } from "../../base/object/mod.ts";

/** Keys of AWS. */
export interface AwsKeys {
  id: string;
  secret: string;
  /** of keys that STS gave for a time */
  token?: string;
}

/** Identifiers as IAM and STS write them, and as stores that are compatible with S3 do. */
const ID = /^[A-Za-z0-9_-]{3,128}$/;
/** Secrets of AWS have 40 of these characters; of other stores, at least 8. */
const SECRET = /^[A-Za-z0-9/+=_.~-]{8,128}$/;
const TOKEN = /^[A-Za-z0-9/+=_.~-]{16,3584}$/;

/** Reads the keys of a stored secret; `undefined` for another text. */
export function awsKeysOf(text: string): AwsKeys | undefined {
  const [id, secret, token, ...more] = text.split(":");
  if (!ID.test(id) || secret === undefined || !SECRET.test(secret) || more.length > 0) return undefined;
  if (token === undefined) return { id, secret };
  return TOKEN.test(token) ? { id, secret, token } : undefined;
}

/** Writes keys as the store has them; `undefined` for keys that cannot be ones of AWS. */
export function joinAwsKeys({ id, secret, token }: AwsKeys): string | undefined {
  const text = [id, secret, ...(token ? [token] : [])].join(":");
  return awsKeysOf(text) ? text : undefined;
}

/** The parts of a stored secret that are secret themselves. */
export function partsOfAwsSecret(text: string): string[] {
  const keys = awsKeysOf(text);
  return keys ? [keys.secret, ...(keys.token === undefined ? [] : [keys.token])] : [];
}

/** Keys as `credential_process` of AWS clients prints them; `undefined` for another text. */
export function readProcessKeys(text: string): { secret: string; end?: number } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const { AccessKeyId: id, SecretAccessKey: secret, SessionToken: token, Expiration: end } = value;
    if (typeof id !== "string" || typeof secret !== "string") return undefined;
    if (token !== undefined && token !== null && typeof token !== "string") return undefined;
    const joined = joinAwsKeys({ id, secret, ...(token && { token }) });
    return joined === undefined ? undefined : {
      secret: joined,
      ...(end !== undefined && end !== null && { end: Date.parse(String(end)) }),
    };
  } catch {
    return undefined;
  }
}
