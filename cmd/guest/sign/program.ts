/**
 * The program that git runs in place of ssh-keygen and gpg: the host signs, and
 * the programs themselves verify.
 */

/** Longest text to be signed that is read, in `bytes`; the host's limit is lower, and its error says so. */
const READ_MAX = 512 * 1024;

/** Files and programs of the guest, and the host. */
export interface SignParts {
  /** @returns the armored signature @throws {Error} the host's reason */
  sign(payload: Uint8Array): Promise<{ signature: string; fingerprint: string }>;
  read(path: string): Promise<ReadableStream<Uint8Array>>;
  write(path: string, text: string): Promise<void>;
  stdin: ReadableStream<Uint8Array>;
  /** writes to a descriptor: 1 or 2 */
  print(fd: 1 | 2, text: string): Promise<void>;
  /** runs a program of the guest on this one's streams @returns its code */
  verify(program: "ssh-keygen" | "gpg", args: readonly string[]): Promise<number>;
}

/**
 * Answers one call of git.
 *
 * @returns the exit code
 * @throws {Error} the reason for which nothing is signed
 */
export async function answer(args: readonly string[], parts: SignParts): Promise<number> {
  if (args[0] === "-Y") return await answerSsh(args, parts);
  const user = args.findIndex((arg) => /^-bsau$/.test(arg));
  if (user < 0) return await parts.verify("gpg", args);
  const status = args.find((arg) => arg.startsWith("--status-fd="))?.slice("--status-fd=".length) ?? "2";
  const { signature, fingerprint } = await parts.sign(await readBounded(parts.stdin));
  await parts.print(1, signature);
  const seconds = Math.floor(Date.now() / 1000);
  await parts.print(status === "1" ? 1 : 2, `\n[GNUPG:] SIG_CREATED D 0 10 00 ${seconds} ${fingerprint}\n`);
  return 0;
}

async function answerSsh(args: readonly string[], parts: SignParts): Promise<number> {
  if (args[1] !== "sign") return await parts.verify("ssh-keygen", args);
  const namespace = args[args.indexOf("-n") + 1];
  if (namespace !== "git") throw new Error("the key of the host signs for git alone (-n git)");
  const path = args.at(-1)!;
  const { signature } = await parts.sign(await readBounded(await parts.read(path)));
  await parts.write(`${path}.sig`, signature);
  return 0;
}

async function readBounded(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > READ_MAX) throw new Error(`the commit or tag is over the limit of ${READ_MAX} bytes`);
  }
  return new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer());
}
