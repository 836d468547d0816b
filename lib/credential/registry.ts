/**
 * Tokens of registries of images (the distribution specification's "Token Authentication"): a registry
 * answers 401 with the place of its tokens, which gives one for the account of that request, or for anybody.
 * A VM that uses accounts of the store only (docs/design/contracts/09-credentials.md §9, "Accounts") may send
 * such a token back to the registry: that request named no other account either.
 */
import type { Header } from "../network/mod.ts";
import type { BodyFilter, BodyPlace } from "../network/interface/mod.ts";
import { plainHost } from "../base/address/mod.ts";
import { lenientPath } from "../base/url/mod.ts";
import { isSecret } from "./form.ts";

/** Most hosts with registries, of places of one's tokens, and of its last tokens. */
const HOSTS_MAX = 100, REALMS_MAX = 10, TOKENS_MAX = 1000;
/** Longest answer with a token, in `bytes`; real ones have a few KB. */
const ANSWER_MAX = 64 * 1024;
const REALM = /^\s*bearer\s(?:[^"]|"[^"]*")*?\brealm="(https:\/\/[^"\s]+)"/i;
/** Fields of an answer with a token. */
const FIELDS = ["token", "access_token"];

interface Registry {
  /** paths, as {@linkcode lenientPath} reads them */
  realms: Set<string>;
  tokens: Set<string>;
}

export class RegistryTokens {
  /** by host */
  readonly #registries = new Map<string, Registry>();

  /**
   * Reads the place of a registry's tokens in the head of an answer. Another host's would make a token of
   * whatever can be published there.
   */
  challenge(host: string, headers: readonly Header[]): void {
    for (const [name, value] of headers) {
      const realm = name === "www-authenticate" ? REALM.exec(value)?.[1] : undefined;
      if (realm === undefined || !URL.canParse(realm)) continue;
      const { hostname, pathname } = new URL(realm);
      if (hostname !== plainHost(host)) continue;
      let registry = this.#registries.get(hostname);
      if (!registry && this.#registries.size < HOSTS_MAX) {
        this.#registries.set(hostname, registry = { realms: new Set(), tokens: new Set() });
      }
      if (registry && registry.realms.size < REALMS_MAX) registry.realms.add(lenientPath(pathname));
    }
  }

  /**
   * True for the place where a registry gives tokens.
   * @param place with its path as {@linkcode lenientPath} reads it
   */
  isRealm(place: Pick<BodyPlace, "host" | "path">): boolean {
    const { host, path } = place;
    return this.#registries.get(plainHost(host))?.realms.has(path) ?? false;
  }

  /** Tests whether a registry gave this VM a token, for a request to its images. */
  gave(host: string, path: string, token: string): boolean {
    return path.startsWith("/v2/") && (this.#registries.get(plainHost(host))?.tokens.has(token) ?? false);
  }

  /** The filter of an answer at a registry's place of tokens: it reads them, and changes nothing. */
  reading({ host }: Pick<BodyPlace, "host">, inner: BodyFilter): BodyFilter {
    const { tokens } = this.#registries.get(plainHost(host))!;
    const decoder = new TextDecoder();
    let text = "";
    return {
      push(chunk) {
        if (text.length <= ANSWER_MAX) text += decoder.decode(chunk, { stream: true });
        return inner.push(chunk);
      },
      end() {
        for (const token of text.length <= ANSWER_MAX ? tokensIn(text) : []) {
          if (tokens.size >= TOKENS_MAX) tokens.delete(tokens.values().next().value!);
          tokens.add(token);
        }
        text = "";
        return inner.end();
      },
      searching: true,
      get substitutions() {
        return inner.substitutions;
      },
      keepsLength: inner.keepsLength,
      get released() {
        return inner.released;
      },
    };
  }
}

function tokensIn(text: string): string[] {
  try {
    const body = JSON.parse(text);
    return FIELDS.map((field) => body?.[field]).filter((value) =>
      typeof value === "string" && isSecret(value)
    );
  } catch {
    return [];
  }
}
