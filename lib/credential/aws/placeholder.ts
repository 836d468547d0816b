/** Placeholders of AWS keys, with which a VM's clients sign. Each VM has its own. */
import { createHash, createHmac } from "node:crypto";
import { timingSafeEqual } from "@std/crypto";

/** Variables in which AWS clients find keys. */
export const AWS_VARIABLES = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] as const;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const PREFIX = "AKIA";
const BODY = 12;
const CHECK = 4;
const PLACEHOLDER = new RegExp(`^${PREFIX}([A-Z2-7]{${BODY}})([A-Z2-7]{${CHECK}})$`);

/**
 * Placeholder of a credential in one VM. It follows from the credential's secret, so that a VM that is
 * resumed keeps its own, and the secret does not follow from it.
 *
 * @param secret as the store has it
 * @param vm id of the VM
 */
export function placeholderOf(secret: string, vm: string): { id: string; secret: string } {
  const derive = (part: string) => createHmac("sha256", secret).update(`sbx.aws.v1\0${part}\0${vm}`).digest();
  const body = base32(derive("id"), BODY);
  return { id: PREFIX + body + checkOf(body), secret: derive("secret").subarray(0, 30).toString("base64") };
}

/**
 * True for the identifier of a placeholder, of any VM: of random identifiers,
 * one in a million looks like one.
 */
export function isPlaceholderId(id: string): boolean {
  const [, body, check] = PLACEHOLDER.exec(id) ?? [];
  return body !== undefined && checkOf(body) === check;
}

/** Compares two texts without a hint where they differ. */
export function isSameText(a: string, b: string): boolean {
  const [one, other] = [a, b].map((text) => new TextEncoder().encode(text));
  return one.length === other.length && timingSafeEqual(one, other);
}

function checkOf(body: string): string {
  return base32(createHash("sha256").update(`sbx.aws.check\0${body}`).digest(), CHECK);
}

function base32(bytes: Uint8Array, length: number): string {
  return Array.from(bytes.subarray(0, length), (byte) => ALPHABET[byte & 31]).join("");
}
