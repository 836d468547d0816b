/** A sandbox's guest, as its programs and files are reached over the API of sbx. */
import { Code, ConnectError } from "@connectrpc/connect";
import type { ExecResult, VmStatus } from "../../../lib/client/api/mod.ts";
import { asSbxError, SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import type { Sandbox } from "./store.ts";

/** User of the guest that programs and files belong to, where a client names none. */
export const DEFAULT_USER = "root";

/** Codes of sbx whose HTTP status does not say which code of Connect they are. */
const CODES: Record<string, Code> = {
  "policy.blocked": Code.PermissionDenied,
  "file.not_found": Code.NotFound,
  "file.exists": Code.AlreadyExists,
  "vm.not_found": Code.Unavailable,
  "vm.wrong_state": Code.Unavailable,
  "process.gone": Code.Unavailable,
  "gateway.unreachable": Code.Unavailable,
  "request.invalid": Code.InvalidArgument,
  "disk.full": Code.ResourceExhausted,
};

const STATUS_CODES: Record<number, Code> = {
  400: Code.InvalidArgument,
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  409: Code.FailedPrecondition,
  429: Code.ResourceExhausted,
  503: Code.Unavailable,
};

/** An error of sbx as one of Connect. */
export function connectError(cause: unknown): ConnectError {
  if (cause instanceof ConnectError) return cause;
  const { code, message, hint } = asSbxError(cause, "a request of an E2B client");
  const text = hint === undefined ? message : `${message} (${hint})`;
  return new ConnectError(text, CODES[code] ?? STATUS_CODES[statusOf(code)] ?? Code.Internal);
}

/** User and folder of a guest's user. */
export interface GuestUser {
  name: string;
  home: string;
}

/** One sandbox's guest. */
export class Guest {
  readonly #users = new Map<string, Promise<GuestUser>>();

  constructor(readonly client: Client, readonly sandbox: Pick<Sandbox, "id" | "vm">) {}

  get path(): string {
    return `/vms/${this.sandbox.vm}`;
  }

  async status(): Promise<VmStatus> {
    const { status } = await this.client.json<{ status: VmStatus }>("GET", `${this.path}/status`);
    return status;
  }

  /** Runs a shell script with arguments. */
  async run(
    script: string,
    args: string[],
    user = DEFAULT_USER,
    env?: Record<string, string>,
  ): Promise<ExecResult> {
    const json = { command: ["/bin/sh", "-c", script, "sh", ...args], user, cwd: "/", env };
    return await this.client.json<ExecResult>("POST", `${this.path}/exec`, { json });
  }

  /**
   * Writes variables for a shell into a file of the user. As words of a program they would be in the record,
   * and every user of the guest would see them.
   *
   * @returns path of the file
   */
  async variables(values: Record<string, string>, user: string): Promise<string> {
    const lines = Object.entries(values).map(([name, value]) => {
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
        throw new ConnectError(`"${name}" is not a name of a variable`, Code.InvalidArgument);
      }
      return `export ${name}='${value.replaceAll("'", `'\\''`)}'\n`;
    });
    const { stdout, stderr, exit_code } = await this.run(
      `umask 077; file=$(mktemp) && printf %s "$E2B_VARIABLES" >"$file" && printf %s "$file"`,
      [],
      user,
      { E2B_VARIABLES: lines.join("") },
    );
    if (exit_code !== 0) throw new SbxError("guest.failed", stderr.trim() || `exit code ${exit_code}`);
    return stdout;
  }

  /** @throws {ConnectError} the guest has no such user */
  user(name = DEFAULT_USER): Promise<GuestUser> {
    const known = this.#users.get(name);
    if (known) return known;
    const found = this.#find(name);
    this.#users.set(name, found);
    found.catch(() => this.#users.delete(name));
    return found;
  }

  async #find(name: string): Promise<GuestUser> {
    // Not by the shell: the name would be its text.
    const { stdout, stderr, exit_code } = await this.run(
      `while IFS=: read -r name _ _ _ _ home _; do [ "$name" = "$1" ] && { printf %s "$home"; exit 0; }; done </etc/passwd; exit 3`,
      [name],
    );
    if (exit_code === 3) throw new ConnectError(`the guest has no user "${name}"`, Code.Unauthenticated);
    if (exit_code !== 0) throw new SbxError("policy.blocked", stderr.trim() || `exit code ${exit_code}`);
    return { name, home: stdout || "/" };
  }

  /** An absolute path: others are in the home of the user. */
  async resolve(path: string, user?: string): Promise<string> {
    if (path.includes("\0")) throw new ConnectError("a path must not contain NUL", Code.InvalidArgument);
    if (path.startsWith("/")) return path;
    const { home } = await this.user(user);
    const rest = path === "~" ? "" : path.replace(/^~\//, "").replace(/^(\.\/)+/, "");
    return rest === "" || rest === "." ? home : `${home.replace(/\/$/, "")}/${rest}`;
  }
}

/** User of `Authorization: Basic USER:`, as E2B names it. */
export function userOf(headers: Headers): string | undefined {
  const [, value] = /^Basic +(\S+)$/i.exec(headers.get("authorization") ?? "") ?? [];
  if (value === undefined) return undefined;
  try {
    const name = new TextDecoder().decode(Uint8Array.fromBase64(value)).split(":")[0];
    if (/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/.test(name)) return name;
  } catch { /* see below */ }
  throw new ConnectError("the user of the request has no valid name", Code.Unauthenticated);
}
