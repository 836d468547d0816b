import { Buffer } from "node:buffer";

/** A header's value taken apart: the secret in it, and the value with something else in its place. */
export interface HeaderSecret {
  secret: string;
  /** how it is written: `bearer`, `token`, `basic`, or `bare` for a value that is all secret */
  scheme: "bearer" | "token" | "basic" | "bare";
  with(other: string): string;
}

/** What git sends as password when the user name is the token. */
const NO_PASSWORD = new Set(["", "x-oauth-basic", "x"]);

/** The secret of a header that carries one; `undefined` when it is written in no way that is known. */
export function headerSecret(name: string, value: string): HeaderSecret | undefined {
  const basic = basicText(value);
  if (basic !== undefined) {
    const colon = basic.indexOf(":");
    const [user, password] = colon < 0 ? [basic, ""] : [basic.slice(0, colon), basic.slice(colon + 1)];
    const inUser = NO_PASSWORD.has(password);
    return {
      secret: inUser ? user : password,
      scheme: "basic",
      with: (other) => basicValue(inUser ? `${other}:${password}` : `${user}:${other}`),
    };
  }
  const [, written, scheme, secret] = /^(\s*(bearer|token)\s+)(\S+)\s*$/i.exec(value) ?? [];
  if (secret !== undefined) {
    return { secret, scheme: scheme.toLowerCase() as "bearer" | "token", with: (other) => written + other };
  }
  if (name.endsWith("authorization")) return undefined;
  return { secret: value.trim(), scheme: "bare", with: (other) => other };
}

/** `user:password` of a Basic header, one character a byte; `undefined` when it is none. */
export function basicText(value: string): string | undefined {
  const encoded = /^\s*basic\s+([A-Za-z0-9+/=_-]+)\s*$/i.exec(value)?.[1];
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("latin1");
}

/** A Basic header's value. */
export function basicValue(text: string): string {
  return `Basic ${Buffer.from(text, "latin1").toString("base64")}`;
}
