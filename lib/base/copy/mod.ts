/** Copies of files and folders, with their holes or shared blocks. */
import { cloneTree } from "../../../ffi/posix/mod.ts";
import { SbxError } from "../error/mod.ts";

/** Options of `cp`: GNU's knows holes and shared blocks; macOS's clones, or copies if cloning fails. */
const OPTIONS = {
  linux: {
    copy: ["--archive", "--sparse=always", "--reflink=auto", "--no-target-directory"],
    link: ["--archive", "--link", "--no-target-directory"],
  },
  darwin: { copy: ["-pPR"], link: ["-pPRl"] },
} as const;

/**
 * Copies a file or a folder without filling holes, sharing blocks if the file system can.
 *
 * @param to nothing is there
 * @throws {SbxError} `disk.full`
 */
export async function copySparse(from: string, to: string, os: string = Deno.build.os): Promise<void> {
  if (os === "darwin" && await cloneTree(from, to)) return;
  await cp(optionsOf(os).copy, from, to);
}

/** Copies a folder whose files never change: the copies are the same files. @throws {SbxError} `disk.full` */
export async function copyLinks(from: string, to: string, os: string = Deno.build.os): Promise<void> {
  await cp(optionsOf(os).link, from, to);
}

function optionsOf(os: string): typeof OPTIONS["linux" | "darwin"] {
  return os === "darwin" ? OPTIONS.darwin : OPTIONS.linux;
}

async function cp(options: readonly string[], from: string, to: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("cp", {
    args: [...options, from, to],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  const text = new TextDecoder().decode(stderr);
  const code = /No space left/i.test(text) ? "disk.full" : "copy.failed";
  throw new SbxError(code, `${from} could not be copied`, {
    cause: text,
    hint: "sbx list shows the VMs, sbx delete NAME removes one",
  });
}
