/**
 * Keys of AWS that take a role, as one text for the store
 * (docs/design/contracts/09-credentials.md §9, "Clouds").
 */
import { pack, unpack } from "../cloud/key_file.ts";
import { type AwsKeys, awsKeysOf } from "./keys.ts";

/** The same keys with another role, or alone, are another secret: each has a ref of its own. */
export function packRoleKeys(keys: string, role: string): string {
  return pack({ keys, role });
}

/** The keys in such a text. */
export function roleKeysOf(secret: string): AwsKeys | undefined {
  const { keys } = unpack(secret);
  return typeof keys === "string" ? awsKeysOf(keys) : undefined;
}
