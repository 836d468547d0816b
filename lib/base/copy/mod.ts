import { SbxError } from "../error/mod.ts";

/** Copies a file or a folder without filling holes, sharing blocks if the file system can. @throws {SbxError} `disk.full` */
export async function copySparse(from: string, to: string): Promise<void> {
  await cp(["--sparse=always", "--reflink=auto"], from, to);
}

/** Copies a folder whose files never change: the copies are the same files. @throws {SbxError} `disk.full` */
export async function copyLinks(from: string, to: string): Promise<void> {
  await cp(["--link"], from, to);
}

async function cp(options: string[], from: string, to: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("cp", {
    args: ["--archive", ...options, "--no-target-directory", from, to],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  const text = new TextDecoder().decode(stderr);
  const code = /No space left/i.test(text) ? "disk.full" : "copy.failed";
  throw new SbxError(code, `${from} could not be copied`, {
    cause: text,
    hint: "sbx list shows the VMs, sbx delete removes one",
  });
}
