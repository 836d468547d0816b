/**
 * Files by which an agent in a guest takes itself for logged in: refs, and facts of the login, none secret.
 */
import { isObject } from "../../base/object/mod.ts";
import type { OauthFacts } from "../provider.ts";
import { GUEST_LIFE_S } from "./attend.ts";
import type { Subscription } from "./subscriptions.ts";

/** Home folder of the user of guests. */
const HOME = "/root";

/** A file of a guest. */
export interface GuestLoginFile {
  path: string;
  text: string;
}

/** The files of a login. */
export function guestFiles(facts: OauthFacts, { access, refresh, terms }: Subscription): GuestLoginFile[] {
  const values: Record<string, unknown> = {
    ...terms.facts,
    access: access.ref,
    refresh: refresh?.ref ?? "",
    expires_ms: Date.now() + GUEST_LIFE_S * 1000,
    scope: terms.scope ?? facts.scopes.join(" "),
    scopes: (terms.scope ?? facts.scopes.join(" ")).split(" "),
    now: new Date().toISOString(),
  };
  return facts.guest.map(({ path, content }) => ({
    path: `${HOME}/${path}`,
    text: JSON.stringify(filled(content, values), null, 2) + "\n",
  }));
}

/** A value with facts in place of their names; a fact that is not known is null. */
function filled(value: unknown, values: Readonly<Record<string, unknown>>): unknown {
  if (typeof value === "string") {
    const name = /^\{(\w+)\}$/.exec(value)?.[1];
    return name === undefined ? value : values[name] ?? null;
  }
  if (!isObject(value)) return value;
  if ("$jwt" in value) return unsignedJwt(filled(value.$jwt, values));
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner, values)]));
}

/** A token that programs can read, and no server takes. */
function unsignedJwt(claims: unknown): string {
  const part = (value: unknown) =>
    new TextEncoder().encode(JSON.stringify(value)).toBase64({ alphabet: "base64url", omitPadding: true });
  return `${part({ alg: "none", typ: "JWT" })}.${part(claims)}.${part("of sbx: not signed")}`;
}
