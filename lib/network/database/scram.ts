/** SCRAM-SHA-256 of a client (RFC 5802, RFC 7677), as PostgreSQL uses it. */
import { MessageFault } from "../fault.ts";
import { SCRAM_ROUNDS_MAX } from "./limit.ts";

export const SCRAM = "SCRAM-SHA-256";

/** No channel binding: Deno shows no certificate of a TLS connection. */
const GS2 = "n,,";

/** One login. A server that does not know the password cannot end it, and learns nothing of it. */
export class ScramClient {
  readonly #password: string;
  readonly #nonce: string;
  #expected?: string;
  /** the server has proved that it knows the password */
  isProven = false;

  constructor(password: string, nonce = crypto.getRandomValues(new Uint8Array(18)).toBase64()) {
    this.#password = password;
    this.#nonce = nonce;
  }

  /** PostgreSQL takes the user from the StartupMessage. */
  first(): string {
    return `${GS2}${this.#bare}`;
  }

  get #bare(): string {
    return `n=,r=${this.#nonce}`;
  }

  /** Answers the server's first message. @throws {MessageFault} for one that is false */
  async final(message: string): Promise<string> {
    const [, nonce, salt, rounds] =
      /^r=([!-+\--~]{1,1024}),s=([A-Za-z0-9+/=]{4,1024}),i=([1-9][0-9]{0,8})$/.exec(message) ??
        [];
    if (nonce === undefined || !nonce.startsWith(this.#nonce) || nonce === this.#nonce) {
      throw new MessageFault("a false message of SCRAM");
    }
    if (Number(rounds) > SCRAM_ROUNDS_MAX) throw new MessageFault("too many rounds of SCRAM");
    const salted = await saltedPassword(this.#password, Uint8Array.fromBase64(salt), Number(rounds));
    const withoutProof = `c=${btoa(GS2)},r=${nonce}`;
    const signed = `${this.#bare},${message},${withoutProof}`;
    const clientKey = await hmac(salted, "Client Key");
    const stored = new Uint8Array(await crypto.subtle.digest("SHA-256", clientKey));
    const signature = await hmac(stored, signed);
    const proof = clientKey.map((byte, at) => byte ^ signature[at]);
    this.#expected = (await hmac(await hmac(salted, "Server Key"), signed)).toBase64();
    return `${withoutProof},p=${proof.toBase64()}`;
  }

  /** Verifies the server's last message. @throws {MessageFault} */
  verify(message: string): void {
    if (this.#expected === undefined || message !== `v=${this.#expected}`) {
      throw new MessageFault("a false proof of SCRAM: it does not know the password");
    }
    this.isProven = true;
  }
}

/** The secret has visible ASCII only, which SASLprep leaves as it is. */
async function saltedPassword(password: string, salt: Uint8Array<ArrayBuffer>, iterations: number) {
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(password), "PBKDF2", false, [
    "deriveBits",
  ]);
  const algorithm = { name: "PBKDF2", hash: "SHA-256", salt, iterations };
  return new Uint8Array(await crypto.subtle.deriveBits(algorithm, key, 256));
}

async function hmac(key: Uint8Array<ArrayBuffer>, text: string): Promise<Uint8Array<ArrayBuffer>> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, new TextEncoder().encode(text)));
}
