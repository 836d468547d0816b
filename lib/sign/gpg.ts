/**
 * The host's own gpg with its agent: the key stays where the person keeps it, also on a smartcard, and no
 * library holds it. The argv is fixed but for the fingerprint.
 */
import { SbxError } from "../base/error/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import { ANSWER_MAX, PUBLIC_MAX } from "./limit.ts";
import { keyError } from "./key.ts";

/** Full fingerprint of an OpenPGP key, of version 4 or 5. */
export const FINGERPRINT = /^(?:[0-9A-F]{40}|[0-9A-F]{64})$/;
/** What gpg and its window for the passphrase read. */
const VARIABLES = [
  ...["PATH", "HOME", "USER", "LANG", "TERM", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"],
  ...["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"],
];

/** Facts about a key of gpg. */
export interface GpgKey {
  fingerprint: string;
  /** armored, without the signatures of others */
  public: string;
  emails: string[];
}

/** Longest wait for gpg to show its keys, in `ms`: its agent or a smartcard may hang. */
const SHOW_MS = timeLimit(30_000);

/**
 * Finds a key that can sign.
 *
 * @param home folder of gpg; absent: its default
 * @throws {SbxError} `sign.key.invalid`
 */
export async function findGpgKey(id: string, home?: string, waitMs = SHOW_MS): Promise<GpgKey> {
  const signal = AbortSignal.timeout(waitMs);
  try {
    return await readGpgKey(id, { home, signal });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw keyError(
      `gpg did not answer within ${waitMs / 1000} s`,
      "gpg --list-secret-keys shows whether it hangs",
    );
  }
}

async function readGpgKey(id: string, options: Pick<RunOptions, "home" | "signal">): Promise<GpgKey> {
  if (!/^[\w@.+-]{1,128}$/.test(id) || id.startsWith("-")) {
    throw keyError("that is not an id of a key", "gpg --list-secret-keys shows them");
  }
  const listed = await run(["--with-colons", "--list-secret-keys", "--", id], {
    ...options,
    max: ANSWER_MAX,
  });
  const rows = listed.text.split("\n").map((line) => line.split(":"));
  const primaries = rows.filter(([kind]) => kind === "sec");
  if (listed.code !== 0 || primaries.length !== 1) {
    throw keyError(
      primaries.length > 1 ? "several keys of gpg have this name" : "gpg has no such secret key",
      "name it by its fingerprint: gpg --list-secret-keys shows them",
    );
  }
  const fingerprint = rows.find(([kind]) => kind === "fpr")?.[9] ?? "";
  if (!FINGERPRINT.test(fingerprint)) throw keyError("gpg names no fingerprint", "gpg --list-secret-keys");
  // Capital letters are abilities of the key as a whole.
  if (!primaries[0][11]?.includes("S") || /[re]/.test(primaries[0][1])) {
    throw keyError("it is revoked, expired, or not for signatures", "gpg --edit-key shows why");
  }
  const emails = rows.filter(([kind]) => kind === "uid")
    .flatMap((fields) => /<([^<>\s]+)>/.exec(fields[9] ?? "")?.[1] ?? []);
  const exported = await run(
    ["--armor", "--export-options", "export-minimal", "--export", "--", fingerprint],
    { ...options, max: ANSWER_MAX },
  );
  if (exported.code !== 0 || exported.text.length > PUBLIC_MAX) {
    throw keyError(
      "gpg does not give its public key, or it is too long",
      "gpg --export-options export-minimal --export",
    );
  }
  return { fingerprint, public: exported.text, emails: [...new Set(emails)] };
}

/** Signs with a key of gpg. @returns the armored signature @throws {SbxError} `sign.failed` */
export async function signWithGpg(
  fingerprint: string,
  payload: Uint8Array,
  { home, signal }: { home?: string; signal: AbortSignal },
): Promise<string> {
  const argv = [
    ...["--no-tty", "--status-fd", "2", "--digest-algo", "SHA512", "--local-user", fingerprint],
    ...["--armor", "--detach-sign"],
  ];
  const { code, text, status } = await run(argv, { home, input: payload, signal, max: ANSWER_MAX });
  // The last word is the primary's fingerprint, or the one of the subkey that signed.
  const isMade = /^\[GNUPG:\] SIG_CREATED D /m.test(status);
  if (code === 0 && isMade && text.startsWith("-----BEGIN PGP SIGNATURE-----")) return text;
  throw new SbxError(
    "sign.failed",
    signal.aborted ? "gpg did not sign in time" : "gpg does not sign with this key",
    { hint: `unlock it on the host and commit again: echo test | gpg -s -u ${fingerprint} -o /dev/null` },
  );
}

interface RunOptions {
  home?: string;
  input?: Uint8Array;
  signal?: AbortSignal;
  max: number;
}

async function run(
  argv: readonly string[],
  { home, input, signal, max }: RunOptions,
): Promise<{ code: number; text: string; status: string }> {
  const environment = VARIABLES.flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  const command = new Deno.Command("gpg", {
    args: ["--batch", "--no-options", ...(home === undefined ? [] : ["--homedir", home]), ...argv],
    clearEnv: true,
    cwd: "/",
    env: Object.fromEntries(environment),
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    ...(signal && { signal }),
  });
  let child: Deno.ChildProcess;
  try {
    child = command.spawn();
  } catch (cause) {
    throw new SbxError("sign.failed", "gpg cannot be run on the host", { cause, hint: "install it: gnupg" });
  }
  const kill = () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
  };
  const fed = feed(child.stdin, input);
  const [text, status] = await Promise.all([
    collect(child.stdout, max, kill),
    collect(child.stderr, max, kill),
    fed,
  ]);
  const { code } = await child.status;
  return { code, text, status };
}

async function feed(stdin: WritableStream<Uint8Array>, input?: Uint8Array): Promise<void> {
  const writer = stdin.getWriter();
  try {
    if (input) await writer.write(input);
    await writer.close();
  } catch {
    // It ended before it read everything; its status says why.
  }
}

async function collect(stream: ReadableStream<Uint8Array>, max: number, kill: () => void): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length <= max) continue;
    kill();
    break;
  }
  return text.slice(0, max);
}
