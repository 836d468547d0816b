/** Access to the OS keyring through each system's own program. Keys go over pipes, never into arguments. */
import { timeLimit } from "../base/time/mod.ts";

/** Longest wait for a keyring, in `ms`; it may ask its user to unlock it. */
const KEYRING_TIMEOUT_MS = timeLimit(30_000);
const SERVICE = "sbx";

export interface Keyring {
  /** `undefined` when the keyring has no value for this account, or does not answer */
  get(account: string): Promise<string | undefined>;
  set(account: string, value: string): Promise<void>;
}

/** Finds the keyring of this user's session. It is not tested here: the first use shows if it works. */
export function findKeyring(env: { get(name: string): string | undefined } = Deno.env): Keyring | undefined {
  if (Deno.build.os === "darwin") return SECURITY;
  // Without a session bus, secret-tool would start a private one.
  return env.get("DBUS_SESSION_BUS_ADDRESS") ? SECRET_TOOL : undefined;
}

const SECRET_TOOL: Keyring = {
  get: (account) => output("secret-tool", ["lookup", "service", SERVICE, "account", account]),
  async set(account, value) {
    const args = ["store", "--label=sbx credential store", "service", SERVICE, "account", account];
    await output("secret-tool", args, value);
  },
};

const SECURITY: Keyring = {
  get: (account) => output("security", ["find-generic-password", "-s", SERVICE, "-a", account, "-w"]),
  async set(account, value) {
    // -i reads commands from standard input, so that the key appears in no process list.
    await output("security", ["-i"], `add-generic-password -U -s ${SERVICE} -a ${account} -w ${value}\n`);
  },
};

/**
 * Output of a program without the final newline; `undefined` when it fails, is missing, or takes too long.
 */
async function output(program: string, args: string[], input?: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(KEYRING_TIMEOUT_MS);
  try {
    const child = new Deno.Command(program, {
      args,
      stdin: input === undefined ? "null" : "piped",
      stdout: "piped",
      stderr: "null",
      signal,
    }).spawn();
    if (input !== undefined) {
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(input));
      await writer.close();
    }
    const { success, stdout } = await child.output();
    const text = new TextDecoder().decode(stdout).trimEnd();
    return success && text !== "" ? text : undefined;
  } catch {
    return undefined;
  }
}
