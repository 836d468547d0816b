import type { CredentialView } from "../../api/routes.ts";

/** Characters of a ref shown as its short form: enough to recognise it at a glance. */
const SHORT = 12;

/** The beginning of a ref's hash. */
export function shortRef(ref: string): string {
  return ref.split(":").at(-1)!.slice(0, SHORT);
}

/** The name of a credential for a person. */
export function nameOf({ label, provider, ref }: CredentialView): string {
  return label ?? `${provider} ${shortRef(ref)}`;
}
