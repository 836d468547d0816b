/** Secrets and logins of a build: refs, which the VM's requests get the keys for on the host. */
import { SbxError } from "../../base/error/mod.ts";

/** A secret for `RUN --mount=type=secret,id=…`. */
export interface Secret {
  id: string;
  /** of a stored credential; the file of the secret has it as its content */
  ref: string;
}

/** Names of files in a folder of secrets. */
const ID = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/**
 * Reads `id=ID,ref=REF`. Docker's `src=` and `env=` would put a key into the VM, and
 * from there perhaps into a layer.
 *
 * @throws {SbxError} `build.secret_invalid`
 */
export function parseSecret(text: string): Secret {
  const parts = text.split(",").map((part) => {
    const at = part.indexOf("=");
    return [part.slice(0, at).trim(), part.slice(at + 1).trim()];
  });
  const fields = Object.fromEntries(parts);
  const { id, ref, ...rest } = fields;
  if (["src", "source", "env"].some((name) => name in rest)) {
    throw new SbxError("build.secret_invalid", `the secret "${id ?? ""}" would bring a key into the VM`, {
      hint: "store the key with sbx credentials add PROVIDER, and name its ref: --secret id=ID,ref=REF",
    });
  }
  const isRight = ID.test(id ?? "") && ref !== undefined && ref !== "" && !/[\s\0]/.test(ref) &&
    Object.keys(rest).every((name) => name === "type" && rest[name] === "file");
  if (isRight) return { id, ref };
  throw new SbxError("build.secret_invalid", "a secret has an id and a ref", {
    hint: "write --secret id=ID,ref=REF; sbx credentials list shows refs",
  });
}

/** A login at a registry of base images and features. */
export interface Login {
  /** as image names have it, with its port */
  registry: string;
  user: string;
  /** of a stored credential: the registry gets its key as the password */
  ref: string;
}

/** Host of a registry, as names of images begin with it. */
const REGISTRY = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/;

/**
 * Reads `registry=HOST,user=USER,ref=REF`.
 *
 * @throws {SbxError} `build.login_invalid`
 */
export function parseLogin(text: string): Login {
  const fields = new Map(
    text.split(",").map((part): [string, string] => {
      const at = part.indexOf("=");
      return [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    }),
  );
  const [registry, user, ref] = ["registry", "user", "ref"].map((name) => fields.get(name) ?? "");
  const isRight = fields.size === 3 && REGISTRY.test(registry) && /^[^:\s\0]{1,256}$/.test(user) &&
    /^[^\s\0]+$/.test(ref);
  if (isRight) return { registry, user, ref };
  throw new SbxError("build.login_invalid", "a login has a registry, a user and the ref of a credential", {
    hint: "write --login registry=HOST,user=USER,ref=REF; sbx credentials list shows refs",
  });
}

/** The logins as clients of registries read them: a password is a ref. */
export function loginFile(logins: readonly Login[]): string {
  const auths = logins.map(({ registry, user, ref }): [string, { auth: string }] => [
    registry,
    { auth: btoa(String.fromCharCode(...new TextEncoder().encode(`${user}:${ref}`))) },
  ]);
  return JSON.stringify({ auths: Object.fromEntries(auths) });
}
