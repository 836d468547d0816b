import { Buffer } from "node:buffer";
import { REF_IN_TEXT } from "./ref.ts";

/** A ref in place of a user's name. */
const REF_FIRST = new RegExp(`^${REF_IN_TEXT}`, "i");

/** Secret in a header value. */
export interface HeaderSecret {
  secret: string;
  /** authentication scheme; `bare` for a value that is the secret alone */
  scheme: "bearer" | "token" | "basic" | "bare";
  /** the header value with `other` in place of the secret */
  with(other: string): string;
}

/** Passwords git sends when the user name is the token. */
const NO_PASSWORD = new Set(["", "x-oauth-basic", "x"]);

/** Extracts the secret of a header value; `undefined` for an unknown format. */
export function headerSecret(name: string, value: string): HeaderSecret | undefined {
  const basic = basicText(value);
  if (basic !== undefined) {
    // A ref in place of the user has colons itself.
    const colon = basic.indexOf(":", REF_FIRST.exec(basic)?.[0].length ?? 0);
    const [user, password] = colon < 0 ? [basic, ""] : [basic.slice(0, colon), basic.slice(colon + 1)];
    const inUser = NO_PASSWORD.has(password);
    return {
      secret: inUser ? user : password,
      scheme: "basic",
      with: (other) => basicValue(inUser ? `${other}:${password}` : `${user}:${other}`),
    };
  }
  const [, prefix, scheme, secret] = /^(\s*(bearer|token)\s+)(\S+)\s*$/i.exec(value) ?? [];
  if (secret !== undefined) {
    return { secret, scheme: scheme.toLowerCase() as "bearer" | "token", with: (other) => prefix + other };
  }
  if (name.endsWith("authorization")) return undefined;
  return { secret: value.trim(), scheme: "bare", with: (other) => other };
}

/** `user:password` of a Basic header, one character per byte; `undefined` for any other header. */
export function basicText(value: string): string | undefined {
  const encoded = /^\s*basic\s+([A-Za-z0-9+/=_-]+)\s*$/i.exec(value)?.[1];
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("latin1");
}

/** Value of a Basic header. */
export function basicValue(text: string): string {
  return `Basic ${Buffer.from(text, "latin1").toString("base64")}`;
}
