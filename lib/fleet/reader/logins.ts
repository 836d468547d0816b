/**
 * Logins under way. Each is in its browser's cookie, sealed: the service keeps none, so that no
 * number of them ends another's.
 */
import { z } from "zod";

/** Time in `ms` for a person to log in. */
const LOGIN_MS = 600_000;
/** Most characters of a cookie. */
const COOKIE_MAX = 1024;
const IV_BYTES = 12;

const Login = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  until: z.number(),
});
export type Login = Omit<z.infer<typeof Login>, "until">;

/** Seals logins with a key of this process. */
export class Logins {
  readonly #key = crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);

  /** @returns text for a cookie */
  async seal(login: Login): Promise<string> {
    const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
    const text = JSON.stringify({ ...login, until: Date.now() + LOGIN_MS });
    const sealed = await crypto.subtle.encrypt(
      { name: "AES-GCM", iv },
      await this.#key,
      new TextEncoder().encode(text),
    );
    return new Uint8Array([...iv, ...new Uint8Array(sealed)]).toBase64({
      alphabet: "base64url",
      omitPadding: true,
    });
  }

  /** Opens the text of a cookie; `undefined`: it is not one of this process, or too old. */
  async open(sealed: string): Promise<Login | undefined> {
    if (sealed.length > COOKIE_MAX) return undefined;
    try {
      const bytes = Uint8Array.fromBase64(sealed, { alphabet: "base64url" });
      const iv = bytes.subarray(0, IV_BYTES);
      const text = await crypto.subtle.decrypt(
        { name: "AES-GCM", iv },
        await this.#key,
        bytes.subarray(IV_BYTES),
      );
      const { until, ...login } = Login.parse(JSON.parse(new TextDecoder().decode(text)));
      return until < Date.now() ? undefined : login;
    } catch {
      // Changed or made up.
      return undefined;
    }
  }
}
