/** Real keys, and the real programs that make and verify signatures. */
import { join } from "node:path";
import { readSigningFile } from "../../lib/sign/mod.ts";
import type { SigningTerms } from "../../lib/sign/mod.ts";

/** Runs a program; its output, or its errors as an error. */
export async function program(
  argv: string[],
  { cwd, env = {}, input }: { cwd?: string; env?: Record<string, string>; input?: string | Uint8Array } = {},
): Promise<{ code: number; text: string; errors: string }> {
  const child = new Deno.Command(argv[0], {
    args: argv.slice(1),
    cwd,
    env: { ...env, LC_ALL: "C" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input;
  const fed = (async () => {
    if (bytes) await writer.write(bytes);
    await writer.close();
  })().catch(() => {});
  const { code, stdout, stderr } = await child.output();
  await fed;
  const decode = (each: Uint8Array) => new TextDecoder().decode(each);
  return { code, text: decode(stdout), errors: decode(stderr) };
}

/** {@linkcode program} that has to succeed. */
export async function must(...call: Parameters<typeof program>): Promise<string> {
  const { code, text, errors } = await program(...call);
  if (code !== 0) throw new Error(`${call[0].join(" ")}: ${errors || text}`);
  return text;
}

export const KINDS = {
  ed25519: ["-t", "ed25519"],
  "ecdsa 256": ["-t", "ecdsa", "-b", "256"],
  "ecdsa 384": ["-t", "ecdsa", "-b", "384"],
  "ecdsa 521": ["-t", "ecdsa", "-b", "521"],
  rsa: ["-t", "rsa", "-b", "3072"],
};

/** Makes a key with ssh-keygen. @returns the path of its file */
export async function makeKey(dir: string, kind = KINDS.ed25519, passphrase = ""): Promise<string> {
  const path = join(dir, `key-${crypto.randomUUID()}`);
  await must(["ssh-keygen", "-q", ...kind, "-N", passphrase, "-C", "ann@example.com", "-f", path]);
  return path;
}

/** Terms and secret of a key in a file. */
export async function keyTerms(path: string): Promise<{ terms: SigningTerms; secret: string }> {
  const { secret, public: { line, fingerprint }, comment } = await readSigningFile(
    await Deno.readTextFile(path),
  );
  return { terms: { format: "ssh", from: "key", public: line, fingerprint, emails: [comment] }, secret };
}

/** An agent of its own, with the given keys. */
export async function startAgent(
  dir: string,
  keys: string[],
): Promise<{ socket: string } & AsyncDisposable> {
  const socket = join(dir, `agent-${crypto.randomUUID().slice(0, 8)}`);
  const child = new Deno.Command("ssh-agent", {
    args: ["-D", "-a", socket],
    stdout: "piped",
    stderr: "null",
    stdin: "null",
  }).spawn();
  // It names its socket once that is there.
  const reader = child.stdout.getReader();
  await reader.read();
  for (const key of keys) await must(["ssh-add", "-q", key], { env: { SSH_AUTH_SOCK: socket } });
  return {
    socket,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
      await reader.cancel();
    },
  };
}

/** A folder of gpg with a key without a passphrase, and the agent that it starts. */
export async function makeGpg(): Promise<{ home: string; fingerprint: string } & AsyncDisposable> {
  // Paths of its agent's sockets have 107 bytes at most.
  const home = await Deno.makeTempDir({ prefix: "gpg-", dir: "/tmp" });
  await must([
    ...["gpg", "--batch", "--homedir", home, "--passphrase", "", "--quick-gen-key"],
    ...["Ann <ann@example.com>", "ed25519", "sign", "never"],
  ]);
  const listed = await must(["gpg", "--homedir", home, "--with-colons", "--list-secret-keys"]);
  return {
    home,
    fingerprint: /^fpr:+([0-9A-F]+):/m.exec(listed)![1],
    async [Symbol.asyncDispose]() {
      await must(["gpgconf", "--homedir", home, "--kill", "all"]);
      await Deno.remove(home, { recursive: true });
    },
  };
}

/** The bytes of a commit that are signed. */
export function commitPayload(
  { subject = "Add a file", author = "Ann <ann@example.com>" }: { subject?: string; author?: string } = {},
): Uint8Array {
  return new TextEncoder().encode(
    [
      "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
      "parent 1111111111111111111111111111111111111111",
      `author ${author} 1700000000 +0100`,
      `committer ${author} 1700000001 +0000`,
      "",
      subject,
      "",
    ].join("\n"),
  );
}
