/**
 * The TPM 2.0 of this machine, which seals the key of a machine of a fleet: a copy of the disk does not open
 * it elsewhere (docs/design/contracts/12-ledger.md §12, "Machine key"). The TPM is used through
 * tpm2-tools of the distribution.
 */
import { dirname, join } from "node:path";
import { z } from "zod";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";

/** Device with the kernel's resource manager; only a TPM 2.0 has it. */
const DEVICE = "/dev/tpmrm0";
/** tpm2-tools' own variable: another way to a TPM, such as to a virtual one. */
const TCTI_VARIABLE = "TPM2TOOLS_TCTI";
/** Longest time of one tool in `ms`: a slow TPM takes seconds to make its storage key. */
const TOOL_MS = 60_000;
/** Beginning of the name of a folder for the tools' files. */
const WORK_PREFIX = ".tpm-";
/** Age in `ms` from which such a folder was left by a call that was killed: none runs so many tools. */
const LEFT_MS = 10 * TOOL_MS;

/**
 * Template of the storage key that seals. It is made for each use from a seed that never leaves the TPM: this
 * template always gives the same key, so it must not change. ECC P-256 is in every TPM of a PC.
 */
const STORAGE_KEY = [
  ...["-C", "o", "-g", "sha256", "-G", "ecc256:aes128cfb"],
  ...["-a", "restricted|decrypt|fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda"],
];
/** Attributes of a sealed secret: for this TPM alone, and outside its lockout after wrong passwords. */
const SEALED_ATTRIBUTES = "fixedtpm|fixedparent|userwithauth|noda";

/** A file with a sealed secret, which only the TPM that made it opens. */
const Sealed = z.strictObject({
  schema: z.literal("sbx.tpm-sealed.v1"),
  /** TPM2B_PUBLIC and TPM2B_PRIVATE */
  public: z.base64().max(4096),
  private: z.base64().max(4096),
});

/** True if this machine has a TPM 2.0, or a variable names one. */
export async function hasTpm(): Promise<boolean> {
  return tcti() !== undefined || await ifFound(Deno.stat(DEVICE)) !== undefined;
}

/**
 * Seals a secret of at most 128 bytes.
 *
 * @param folder a private folder, for the tools' files; none of them has the secret
 * @returns the text of the file to keep
 * @throws {SbxError} `attest.tpm.missing`, `attest.tpm.tools_missing`, `attest.tpm.failed`
 */
export async function sealSecret(secret: string, folder: string): Promise<string> {
  await requireTpm("a key cannot be bound to it");
  return await withWork(folder, async (at) => {
    await makeStorageKey(at);
    await step("tpm2_create", [
      ...["-Q", "-C", at("parent"), "-i", "-", "-a", SEALED_ATTRIBUTES],
      ...["-u", at("public"), "-r", at("private")],
    ], secret);
    const sealed: z.infer<typeof Sealed> = {
      schema: "sbx.tpm-sealed.v1",
      public: (await Deno.readFile(at("public"))).toBase64(),
      private: (await Deno.readFile(at("private"))).toBase64(),
    };
    return JSON.stringify(sealed, null, 2) + "\n";
  });
}

/**
 * Opens what {@linkcode sealSecret} returned.
 *
 * @param path of the file, for errors
 * @throws {SbxError} as {@linkcode sealSecret}; `attest.tpm.foreign`: another TPM sealed it
 */
export async function unsealSecret(text: string, path: string, folder: string): Promise<string> {
  const sealed = parse(text, path);
  await requireTpm(`${path} cannot be opened`, path);
  return await withWork(folder, async (at) => {
    await Deno.writeFile(at("public"), Uint8Array.fromBase64(sealed.public));
    await Deno.writeFile(at("private"), Uint8Array.fromBase64(sealed.private));
    await makeStorageKey(at);
    const args = ["-Q", "-C", at("parent"), "-u", at("public"), "-r", at("private"), "-c", at("object")];
    await step("tpm2_load", args).catch((cause) => {
      throw isOfOther(cause) ? foreign(path, cause) : cause;
    });
    return await step("tpm2_unseal", ["-c", at("object")]);
  });
}

function parse(text: string, path: string): z.infer<typeof Sealed> {
  try {
    return Sealed.parse(JSON.parse(text));
  } catch (cause) {
    throw new SbxError("attest.key.invalid", `${path} does not hold a sealed key`, {
      cause,
      hint: "restore it from a backup of this machine",
    });
  }
}

async function makeStorageKey(at: (name: string) => string): Promise<void> {
  await step("tpm2_createprimary", ["-Q", ...STORAGE_KEY, "-c", at("parent")]);
}

/** Runs `work` with a folder for the tools' files, which goes with it. */
async function withWork<T>(folder: string, work: (at: (name: string) => string) => Promise<T>): Promise<T> {
  await removeLeft(folder);
  const dir = await Deno.makeTempDir({ dir: folder, prefix: WORK_PREFIX });
  try {
    return await work((name) => join(dir, name));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Removes folders of calls that were killed: sealed secrets only, so one may stay until the next call. */
async function removeLeft(folder: string): Promise<void> {
  const before = Date.now() - timeLimit(LEFT_MS);
  for await (const { name } of Deno.readDir(folder)) {
    if (!name.startsWith(WORK_PREFIX)) continue;
    const path = join(folder, name);
    const { mtime } = await ifFound(Deno.lstat(path)) ?? {};
    if (!mtime || mtime.getTime() >= before) continue;
    await Deno.remove(path, { recursive: true }).catch(ignore("the next call tries it again"));
  }
}

/**
 * Runs a tool, and unloads its objects: a TPM has room for three, and a way to it may have no resource
 * manager. With one, this reaches the objects of its own connection alone.
 */
async function step(tool: string, args: string[], input?: string): Promise<string> {
  try {
    return await run(tool, args, input);
  } finally {
    await run("tpm2_flushcontext", ["-t"]).catch(ignore("the tool's own failure is reported"));
  }
}

/** Failure of a tool, as the cause of an error. */
class ToolError extends Error {
  /** response code of the TPM or its libraries; `undefined`: the tool printed none */
  readonly code?: number;
  readonly exit: number;
  /** no TPM answered */
  readonly isSilent: boolean;

  constructor(readonly tool: string, { code, signal, stderr }: Deno.CommandOutput) {
    const text = new TextDecoder().decode(stderr).trim();
    super(`${tool} ended with ${signal ?? code}: ${text}`);
    this.exit = code;
    // Ended by a signal: the limit of time.
    this.isSilent = signal !== null || NO_WAY.test(text);
    const [, hex] = /\(0x([0-9a-f]{1,8})\)/i.exec(text) ?? [];
    if (hex !== undefined) this.code = parseInt(hex, 16);
  }
}

/** @param input secret for its standard input: others see arguments and variables */
async function run(tool: string, args: string[], input?: string): Promise<string> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(tool, {
      args,
      cwd: "/",
      clearEnv: true,
      env: {
        PATH: Deno.env.get("PATH") || "/usr/sbin:/usr/bin:/sbin:/bin",
        [TCTI_VARIABLE]: tcti() ?? `device:${DEVICE}`,
        TSS2_LOG: "all+ERROR",
      },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError(
      "attest.tpm.tools_missing",
      `the TPM of this machine cannot be used: ${tool} is missing`,
      { cause, hint: "install the package tpm2-tools" },
    );
  }
  const output = child.output();
  const timer = setTimeout(() => child.kill("SIGKILL"), timeLimit(TOOL_MS));
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input ?? "")).then(() => writer.close())
    .catch(ignore("a tool that has ended reads nothing; its exit code says why"));
  const result = await output.finally(() => clearTimeout(timer));
  if (result.success) return new TextDecoder().decode(result.stdout);
  throw refused(new ToolError(tool, result));
}

/** Layer of a response code that ways to a TPM have; codes of the TPM itself have layer 0. */
const TCTI_LAYER = 0xa;
/** Text of tools without a way to a TPM; not all versions have an exit code for that. */
const NO_WAY = /could not load tcti/i;
/** Response codes of a TPM without the number of the part that they are about (TPM 2.0 part 2, 6.6). */
const RC = { integrity: 0x9f, failure: 0x101, authFail: 0x8e, badAuth: 0xa2 } as const;
/** The number's bits, and the bit that marks such codes. */
const RC_NUMBERED = 0x80, RC_NUMBER = 0xf40;

function baseOf(code: number | undefined): number | undefined {
  return code !== undefined && (code & RC_NUMBERED) !== 0 ? code & ~RC_NUMBER : code;
}

function isOfOther(error: unknown): boolean {
  const cause = error instanceof SbxError ? error.cause : undefined;
  return cause instanceof ToolError && baseOf(cause.code) === RC.integrity;
}

function refused(cause: ToolError): SbxError {
  const { tool, exit, code, isSilent } = cause;
  const fail = (problem: string, hint: string) =>
    new SbxError("attest.tpm.failed", `the TPM of this machine ${problem}`, { cause, hint });
  if (isSilent || code !== undefined && code >>> 16 === TCTI_LAYER) {
    const way = tcti() === undefined ? DEVICE : `$${TCTI_VARIABLE}`;
    return fail(
      "does not answer",
      `check that ${way} is a TPM and open to root: tpm2_getcap properties-fixed`,
    );
  }
  switch (baseOf(code)) {
    case RC.authFail:
    case RC.badAuth:
      return fail(
        "has a password for its owner, which sbx does not know",
        "remove it: tpm2_changeauth -c owner -p file:FILE, with the password in FILE",
      );
    case RC.failure:
      return fail("has failed its own test and takes no commands", "restart the machine");
  }
  const number = code === undefined ? `exit code ${exit}` : `0x${code.toString(16)}`;
  return fail(`refuses ${tool} (${number})`, "tpm2_rc_decode explains the code");
}

function foreign(path: string, cause: unknown): SbxError {
  return new SbxError("attest.tpm.foreign", `${path} does not open here: another TPM sealed it`, {
    cause,
    hint: `on a copied disk, with a new mainboard and after a TPM was cleared, ${enrolAgain(path)}`,
  });
}

/** @throws {SbxError} `attest.tpm.missing` */
async function requireTpm(problem: string, path?: string): Promise<void> {
  if (await hasTpm()) return;
  const otherwise = path === undefined ? "" : `; where there is none, ${enrolAgain(path)}`;
  throw new SbxError("attest.tpm.missing", `this machine has no TPM 2.0 (${DEVICE}): ${problem}`, {
    hint: `turn the TPM on in the firmware's settings, and restart${otherwise}`,
  });
}

function enrolAgain(path: string): string {
  return `move ${dirname(path)} away and enrol with a new token: sbx-admin fleet enrol < token.txt`;
}

function tcti(): string | undefined {
  return Deno.env.get(TCTI_VARIABLE) || undefined;
}
