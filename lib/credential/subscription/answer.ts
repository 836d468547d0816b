/** Answers of token endpoints: the tokens, their account, and other facts that files of guests need. */
import { isSecret } from "../form.ts";
import { objectOf } from "../../base/object/mod.ts";
import type { OauthFacts } from "../provider.ts";
import { loginFailed } from "./fetch.ts";

/** Longest fact of a login, in characters. */
const FACT_MAX = 256;
/** Longest life of a token that is believed, in `s`. */
const LIFE_MAX_S = 10 * 365 * 86_400;

/** Tokens of a login. */
export interface LoginTokens {
  access: string;
  /** Unix `ms`; absent: it has no end that is known */
  expires_at?: number;
  /** absent: the answer brought no other one */
  refresh?: string;
  scope?: string;
  account?: string;
  /** none secret */
  facts: Record<string, string>;
}

/** Fields of a token endpoint's answer, or of a page about the account. */
export type Answer = Readonly<Record<string, unknown>>;

/**
 * Reads the tokens of an answer.
 *
 * @param claims of its ID token
 * @param account fields of the page about the account
 * @throws {SbxError} `login.failed`: tokens that cannot be kept
 */
export function tokensOf(
  facts: OauthFacts,
  answer: Answer,
  { claims, account }: { claims?: Answer; account?: Answer } = {},
): LoginTokens {
  const { access_token: access, refresh_token: refresh, expires_in, scope } = answer;
  if (!isToken(access)) throw loginFailed(`${facts.title} gave a token that sbx cannot keep`);
  if (refresh !== undefined && !isToken(refresh)) {
    throw loginFailed(`${facts.title} gave a refresh token that sbx cannot keep`);
  }
  const all = { ...answer, ...account, id_token: claims };
  const found = Object.entries(facts.keep ?? {}).map(([name, place]) =>
    [name, factAt(all, place, [access, refresh])] as const
  );
  const owner = factAt(all, facts.account, [access, refresh]);
  return {
    access,
    ...(refresh !== undefined && { refresh }),
    ...(typeof expires_in === "number" && expires_in >= 0 && expires_in < LIFE_MAX_S && {
      expires_at: Date.now() + expires_in * 1000,
    }),
    ...(typeof scope === "string" && scope.length <= 1024 && !scope.includes(access) && { scope }),
    ...(owner !== undefined && { account: owner }),
    facts: Object.fromEntries(found.filter((each): each is [string, string] => each[1] !== undefined)),
  };
}

function isToken(value: unknown): value is string {
  return typeof value === "string" && isSecret(value);
}

/** A short text or number; one that holds a token is none: facts are shown. */
function factAt(answer: unknown, place: readonly string[], secrets: readonly unknown[]): string | undefined {
  const value = place.reduce((inner, name) => objectOf(inner)[name], answer);
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  const isGood = typeof value === "string" && /^[\x20-\x7e]+$/.test(value) && value.length <= FACT_MAX &&
    !secrets.some((secret) => typeof secret === "string" && value.includes(secret));
  return isGood ? value : undefined;
}
