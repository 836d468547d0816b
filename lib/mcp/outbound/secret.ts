import { Buffer } from "node:buffer";
import { Finder } from "../../credential/mod.ts";
import { isDeeper } from "../../base/json/mod.ts";
import { DEPTH_MAX } from "../limit.ts";
import { OutboundRefusal } from "./refusal.ts";

/** Nesting levels of a JSON-RPC message around its result. */
const ENVELOPE_LEVELS = 2;
/** A whole text of base64, plain or for URLs, that is long enough for a secret. */
const BASE64 = /^[A-Za-z0-9+/_\s-]{16,}={0,2}\s*$/;

/**
 * Replaces the secrets sent to servers in what any server says. Searches parsed values, because JSON has many spellings
 * of one text.
 */
export class SecretFilter {
  /** pairs of ref and secret; a renewed credential has several secrets */
  readonly #secrets: [ref: string, secret: string][] = [];
  #finder?: Finder;

  add(ref: string, secret: string): void {
    if (this.#secrets.some(([knownRef, known]) => known === secret && knownRef === ref)) return;
    this.#secrets.push([ref, secret]);
    this.#finder = new Finder(this.#secrets, { shapes: false });
  }

  /** Text with refs in place of secrets. */
  text(text: string): string {
    let out = "";
    let at = 0;
    for (const { start, end, ref } of this.#finder?.find(text) ?? []) {
      out += text.slice(at, start) + ref;
      at = end;
    }
    return at === 0 ? text : out + text.slice(at);
  }

  /**
   * Message as text, searched value by value if it is JSON.
   *
   * @throws {OutboundRefusal} JSON nested too deep to be searched
   */
  message(text: string): string {
    if (!this.#finder) return text;
    if (isDeeper(text, DEPTH_MAX + ENVELOPE_LEVELS)) {
      throw new OutboundRefusal(`the response is nested deeper than ${DEPTH_MAX} levels`);
    }
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return this.text(text);
    }
    return JSON.stringify(this.#value(value));
  }

  #value(value: unknown): unknown {
    if (typeof value === "string") return this.#string(value);
    if (typeof value === "number") {
      const digits = String(value);
      const replaced = this.text(digits);
      return replaced === digits ? value : replaced;
    }
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.#value(item));
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.text(name), this.#value(member)]),
    );
  }

  /** Searches base64, such as blobs, decoded too. */
  #string(text: string): string {
    if (!BASE64.test(text)) return this.text(text);
    const decoded = Buffer.from(text, "base64").toString("latin1");
    const replaced = this.text(decoded);
    return this.text(replaced === decoded ? text : Buffer.from(replaced, "latin1").toString("base64"));
  }
}
