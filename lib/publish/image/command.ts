/** Runs the tools of a build, which can be interrupted. */
import { ignore, SbxError } from "../../base/error/mod.ts";

/** Options for running a tool. */
export interface RunOptions {
  /** purpose, as the start of an error message: "downloading the kernel" */
  doing: string;
  /** variables added to this process's environment */
  env?: Record<string, string>;
  cwd?: string;
  /** standard input; default is this process's own, so that sudo can ask for a password */
  input?: Uint8Array;
  /** kills the tool */
  signal?: AbortSignal;
  hint?: string;
}

/**
 * Runs a tool and returns its standard output.
 *
 * @throws {SbxError} `image.tool_failed`: quotes the first error line of the tool; `image.interrupted`
 */
export async function run(command: string[], options: RunOptions): Promise<Uint8Array> {
  const { doing, env, cwd, input, signal, hint } = options;
  throwIfInterrupted(signal);
  const child = new Deno.Command(command[0], {
    args: command.slice(1),
    env: { LC_ALL: "C.UTF-8", ...env },
    cwd,
    signal,
    stdin: input ? "piped" : "inherit",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (input) {
    const writer = child.stdin.getWriter();
    writer.write(input).then(() => writer.close()).catch(
      ignore("a tool that ends early closes its input; its exit code is reported below"),
    );
  }
  const { success, code, stdout, stderr } = await child.output();
  throwIfInterrupted(signal);
  if (success) return stdout;
  const errors = new TextDecoder().decode(stderr).trimEnd();
  const lines = errors.split("\n");
  const line = lines.find((line) => /^E: |error:?(?! code)[ :]+\S|fail|cannot|unable/i.test(line)) ??
    lines.at(-1) ??
    "";
  throw new SbxError(
    "image.tool_failed",
    `${doing} failed: ${command[0]} exited with ${code}${line && `: ${line.trim().slice(0, 300)}`}`,
    { cause: errors, hint },
  );
}

/** Runs a tool and returns its standard output as text. */
export async function runText(command: string[], options: RunOptions): Promise<string> {
  return new TextDecoder().decode(await run(command, options));
}

/** @throws {SbxError} `image.interrupted`: `signal` is aborted */
export function throwIfInterrupted(signal?: AbortSignal): void {
  if (signal?.aborted) {
    throw new SbxError(
      "image.interrupted",
      "the image build was interrupted; its partial output was removed",
    );
  }
}

/** Tools of a build, with the Debian package of each. */
const TOOLS: Record<string, string> = {
  "apt-get": "apt",
  "dpkg-deb": "dpkg",
  "mmdebstrap": "mmdebstrap",
  "mkfs.erofs": "erofs-utils",
  "patchelf": "patchelf",
};

/** Decompressors for kernels, with the Debian package of each; required only for the format in use. */
export const UNPACKERS: Record<string, string> = { lz4: "lz4", zstd: "zstd", xz: "xz-utils", gzip: "gzip" };

/** @throws {SbxError} `image.tool_missing`: names every missing tool and its package */
export async function requireTools(tools: Record<string, string> = TOOLS): Promise<void> {
  const present = await Promise.all(Object.keys(tools).map(hasTool));
  const missing = Object.keys(tools).filter((_, at) => !present[at]);
  if (missing.length === 0) return;
  const packages = missing.map((tool) => tools[tool]).join(" ");
  throw new SbxError(
    "image.tool_missing",
    `an image build needs ${missing.join(", ")}, not found on this machine`,
    {
      hint: `install the missing programs: make setup (scripts/deps.sh), or apt-get install ${packages}`,
    },
  );
}

/** Tests whether `tool` is on the path. */
export async function hasTool(tool: string): Promise<boolean> {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":").concat("/usr/sbin", "/sbin")) {
    const info = await Deno.stat(`${folder}/${tool}`).catch(() => null);
    if (info?.isFile && (info.mode ?? 0) & 0o111) return true;
  }
  return false;
}

/**
 * Runs `work` with a signal that aborts on Ctrl-C, SIGTERM and a closed terminal, so that it can clean up.
 */
export async function withInterrupts<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const signals: Deno.Signal[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) Deno.addSignalListener(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) Deno.removeSignalListener(signal, abort);
  }
}
