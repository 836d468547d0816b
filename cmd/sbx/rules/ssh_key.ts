/** An SSH key for `sbx credentials add ssh`: a file or an agent, and the keys that the server may have. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import type { Arguments } from "../../../lib/base/args/mod.ts";
import type { CredentialAdd } from "../../../lib/client/api/mod.ts";
import { type AgentKey, agentKeys, parsePublicKey } from "../../../lib/base/ssh/mod.ts";
import { readSshSecret } from "../../../lib/credential/ssh/mod.ts";
import { readSecret, readTyped, withPassphrase } from "./secret.ts";

/** User of every forge. */
const USER = "git";
const PORT = "22";

/**
 * Secret and terms of an SSH key.
 * @throws {SbxError} `credential.invalid`, `credential.locked`, `ssh.agent`, `ssh.host_key`
 */
export async function readSshKey(
  args: Arguments,
  host: string,
): Promise<Pick<CredentialAdd, "secret" | "ssh">> {
  const key = args.has("agent")
    ? await agentKey(args.text("key"))
    : { secret: await privateKey(args.text("key")) };
  const { secret, ...held } = { secret: undefined, ...key };
  const host_keys = args.list("host-key").length > 0
    ? args.list("host-key").map(hostKeyIn)
    : await knownKeys(host) ?? await scannedKeys(host);
  return {
    ...(secret !== undefined && { secret }),
    ssh: { user: args.text("user") ?? USER, host_keys: [...new Set(host_keys)], ...held },
  };
}

/** Reads a file, or standard input; asks for the passphrase of a key that has one. */
async function privateKey(path: string | undefined): Promise<string> {
  const hint = "name it, or let an agent hold it: --key FILE, or --agent";
  if (path === undefined && Deno.stdin.isTerminal()) throw invalid("an SSH key needs its file", hint);
  const text = path === undefined
    ? await readSecret("SSH key", `give its file: ${hint}`)
    : await readFile(path);
  return await withPassphrase(path ?? "the key", (passphrase) => readSshSecret(text, passphrase));
}

/** Finds the key of the person's agent: its only one, or the one whose file is named. */
async function agentKey(path: string | undefined): Promise<{ agent: string; public_key: string }> {
  const agent = Deno.env.get("SSH_AUTH_SOCK");
  if (!agent) {
    throw invalid(
      "no SSH agent is running: SSH_AUTH_SOCK is not set",
      "start one, or name the file of the key: --key FILE",
    );
  }
  const keys = await agentKeys(agent);
  const wanted = path === undefined
    ? undefined
    : publicKeyIn(await readFile(path.endsWith(".pub") ? path : `${path}.pub`));
  const found = wanted === undefined
    ? keys.length === 1 ? keys[0] : undefined
    : keys.find(({ key }) => key.line === wanted);
  if (found) return { agent, public_key: found.key.line };
  const problem = keys.length === 0
    ? "the SSH agent holds no key"
    : wanted === undefined
    ? `the SSH agent holds ${keys.length} keys: ${keys.map(nameOf).join(", ")}`
    : `the SSH agent does not hold the key of ${path}`;
  throw invalid(problem, keys.length === 0 ? "ssh-add FILE adds one" : "name one: --key FILE.pub");
}

function nameOf({ key, comment }: AgentKey): string {
  return `${plain(comment)} (${key.fingerprint})`;
}

async function readFile(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw invalid(`the key file ${path} cannot be read`, "name the file of a key", cause);
  }
}

function publicKeyIn(text: string): string {
  const line = text.trim().split(/\s+/).slice(0, 2).join(" ");
  if (parsePublicKey(line)) return line;
  throw invalid(
    "the file has no public key that sbx uses",
    "name the .pub file of a key of Ed25519, ECDSA or RSA",
  );
}

/** A host key as it is given: alone, or in a line of `known_hosts`. */
function hostKeyIn(text: string): string {
  const words = text.trim().split(/\s+/);
  for (const at of [0, 1]) {
    const line = words.slice(at, at + 2).join(" ");
    if (parsePublicKey(line)) return line;
  }
  throw invalid(
    "that is not a host key that sbx uses",
    'give it as the server\'s .pub file has it: "ssh-ed25519 AAAA…"',
  );
}

/** Keys of a host in the person's own files, also under hashed names; `undefined` without any. */
async function knownKeys(host: string): Promise<string[] | undefined> {
  const [name, port = PORT] = host.split(":");
  const files = [`${Deno.env.get("HOME") ?? ""}/.ssh/known_hosts`, "/etc/ssh/ssh_known_hosts"];
  const found: string[] = [];
  for (const file of files) {
    const text = await run("ssh-keygen", "-F", port === PORT ? name : `[${name}]:${port}`, "-f", file);
    // Lines with a mark are of authorities, or of keys that are revoked.
    const lines = text.split("\n").filter((line) => !/^[#@]/.test(line));
    found.push(
      ...lines.map((line) => line.split(" ").slice(1, 3).join(" ")).filter((line) => parsePublicKey(line)),
    );
  }
  return found.length > 0 ? found : undefined;
}

/** Asks the server for its keys, and a person whether they are the right ones. */
async function scannedKeys(host: string): Promise<string[]> {
  const [name, port = PORT] = host.split(":");
  if (!Deno.stdin.isTerminal()) throw unknownHost(host);
  const text = await run("ssh-keyscan", "-p", port, "-t", "ed25519,ecdsa,rsa", name);
  const keys = text.split("\n").map((line) => line.split(" ").slice(1, 3).join(" ")).filter((line) =>
    parsePublicKey(line)
  );
  if (keys.length === 0) throw unknownHost(host);
  note(`${host} has these host keys; compare them with the ones that its administrator publishes:`);
  for (const key of keys) {
    const { type, fingerprint } = parsePublicKey(key)!;
    note(`  ${type} ${fingerprint}`);
  }
  if (/^y(es)?$/i.test((await readTyped("trust them? (yes or no; it is not shown) ")).trim())) return keys;
  throw new SbxError("ssh.host_key", `the host keys of ${host} were not confirmed: nothing was stored`, {
    hint: 'give the right one: --host-key "ssh-ed25519 AAAA…"',
  });
}

function unknownHost(host: string): SbxError {
  return new SbxError("ssh.host_key", `the host keys of ${host} are not known`, {
    hint:
      'connect to it once with ssh, or give one that its administrator publishes: --host-key "ssh-ed25519 AAAA…"',
  });
}

/** Output of a program of OpenSSH; empty when it finds nothing, or is not there. */
async function run(program: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await new Deno.Command(program, { args, stdin: "null", stderr: "null" }).output();
    return new TextDecoder().decode(stdout);
  } catch {
    return "";
  }
}

function invalid(problem: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("credential.invalid", problem, { hint, cause });
}
