/** The host, the files and the programs by which signatures are made and verified. */
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { McpClient } from "../../../lib/machine/guest/mcp/mod.ts";
import { LAYER_PATH } from "../../../lib/machine/guest/wire/mod.ts";
import type { SignParts } from "./program.ts";

/** Public OpenPGP keys of the host; gpg reads them beside its own. */
const OPENPGP_PATH = "/etc/sbx/signers.asc";
export const ADVICE = "to commit without a signature: git commit --no-gpg-sign";

/** Parts that a test replaces. */
interface Places {
  open?(): Promise<Deno.Conn>;
  keygen?: string;
  signers?: string;
}

export function partsOf(
  { open, keygen = `${LAYER_PATH}/bin/ssh-keygen`, signers = OPENPGP_PATH }: Places = {},
): SignParts {
  return {
    sign: (payload) => sign(payload, open),
    read: async (path) => (await Deno.open(path)).readable,
    write: (path, text) => Deno.writeTextFile(path, text),
    stdin: Deno.stdin.readable,
    print: (fd, text) => writeAll(fd === 1 ? Deno.stdout : Deno.stderr, new TextEncoder().encode(text)),
    // An image may name a library for OpenSSL that only its own programs can load.
    verify: (program, args) =>
      program === "gpg" ? gpg(args, signers) : run(keygen, args, { OPENSSL_CONF: "/dev/null" }),
  };
}

async function sign(
  payload: Uint8Array,
  open?: () => Promise<Deno.Conn>,
): Promise<{ signature: string; fingerprint: string }> {
  using client = await McpClient.connect("sbx-sign", open);
  let shown = "";
  return await client.call("local__git_sign", { payload: payload.toBase64() }, (text) => {
    if (text !== shown) tellPerson(text);
    shown = text;
  }) as { signature: string; fingerprint: string };
}

/** git shows the output of this program only when it fails: a person who waits is at the terminal. */
function tellPerson(text: string): void {
  try {
    using terminal = Deno.openSync("/dev/tty", { write: true });
    terminal.writeSync(new TextEncoder().encode(`sbx-sign: ${text}\r\n`));
  } catch {
    // No terminal: an agent waits for the answer itself.
  }
}

async function gpg(args: readonly string[], signers: string): Promise<number> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-sign-" });
  try {
    const ring = `${dir}/signers.gpg`;
    const isThere = await Deno.stat(signers).then(() => true, () => false);
    if (isThere) await run("gpg", ["--batch", "--yes", "--output", ring, "--dearmor", signers]);
    return await run("gpg", [...(isThere ? ["--keyring", ring] : []), ...args]);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new Error("this VM has no gpg: apt install gpg");
    throw error;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function run(
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<number> {
  const streams = { stdin: "inherit", stdout: "inherit", stderr: "inherit" } as const;
  const { code } = await new Deno.Command(program, { args: [...args], env, ...streams }).spawn().status;
  return code;
}
