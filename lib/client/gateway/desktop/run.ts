/**
 * Identity of one run of the gateway towards the desktop page (docs/design/contracts/02-http.md §2,
 * "Desktop").
 */
import { SbxError } from "../../../base/error/mod.ts";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" };
const SIGNING = { name: "ECDSA", hash: "SHA-256" };
/** `bytes` of randomness in the name of a run's host. */
const NAME_BYTES = 8;
/** First line of a signed text, so that a signature has no other meaning. */
const PROOF = "sbx-desktop-proof-v1";
/** Base64 of 32 bytes. */
const CHALLENGE = /^[A-Za-z0-9+/]{43}=$/;

/**
 * A name and a key that no other run has. The name is the page's host: browsers keep cookies, storage, cached files and
 * service workers by origin, so a program that gets the port of a gateway that has ended can prepare nothing for the next
 * one. The key proves this run to a page before it sends a secret.
 */
export class GatewayRun {
  readonly #privateKey: CryptoKey;

  private constructor(
    /** host of the page, such as `sbx-0123456789abcdef.localhost`; browsers take it for this machine */
    readonly hostname: string,
    /** SubjectPublicKeyInfo in base64 */
    readonly publicKey: string,
    privateKey: CryptoKey,
  ) {
    this.#privateKey = privateKey;
  }

  static async make(): Promise<GatewayRun> {
    const { publicKey, privateKey } = await crypto.subtle.generateKey(ALGORITHM, false, ["sign", "verify"]);
    const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
    const name = crypto.getRandomValues(new Uint8Array(NAME_BYTES)).toHex();
    return new GatewayRun(`sbx-${name}.localhost`, spki.toBase64(), privateKey);
  }

  /** True if a `Host` header or the authority of a URL names this run. */
  isHost(host: string | null): boolean {
    return host?.toLowerCase().replace(/:\d{1,5}$/, "") === this.hostname;
  }

  /**
   * Signs the challenge of a page.
   *
   * @param host the request's `Host`, so that a signature counts at one address
   * @returns the signature in base64
   * @throws {SbxError} `request.invalid`: the challenge is not base64 of 32 bytes
   */
  async prove(challenge: string, host: string): Promise<string> {
    if (!CHALLENGE.test(challenge)) {
      throw new SbxError("request.invalid", "the challenge is not base64 of 32 bytes", {
        hint: "reload the page",
      });
    }
    const text = new TextEncoder().encode(`${PROOF}\n${host}\n${challenge}`);
    return new Uint8Array(await crypto.subtle.sign(SIGNING, this.#privateKey, text)).toBase64();
  }
}
