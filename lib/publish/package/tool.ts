import { outputOf } from "../../base/spawn/mod.ts";
import { SbxError } from "../../base/error/mod.ts";

/** Debian's packages of the tools that make packages and repositories. */
const PACKAGES: Record<string, string> = { "dpkg-deb": "dpkg", "apt-ftparchive": "apt-utils", gpg: "gnupg" };

/** Options of {@linkcode runTool}. */
export interface ToolOptions {
  /** purpose, as the start of an error message: "building sbx_1.0.0_amd64.deb" */
  doing: string;
  cwd?: string;
  env?: Record<string, string>;
}

/**
 * Runs a tool in a fixed locale and time zone, and returns its standard output.
 *
 * @throws {SbxError} `package.tool_missing`, `package.tool_failed`
 */
export async function runTool(
  [tool, ...args]: [string, ...string[]],
  { doing, cwd, env }: ToolOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const command = new Deno.Command(tool, {
    args,
    cwd,
    env: { LC_ALL: "C.UTF-8", TZ: "UTC", ...env },
    stdin: "null",
  });
  const { success, code, stdout, stderr } = await outputOf(command).catch((cause) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError("package.tool_missing", `${doing} needs ${tool}, which this machine does not have`, {
      hint: `apt-get install ${PACKAGES[tool] ?? tool}`,
      cause,
    });
  });
  if (success) return stdout;
  const errors = new TextDecoder().decode(stderr).trim();
  throw new SbxError(
    "package.tool_failed",
    `${doing} failed: ${tool} exited with ${code}: ${errors.split("\n")[0]}`,
    { cause: errors, hint: "read the tool's output, fix the cause, and run this again" },
  );
}
