/** The VM from the host's side: programs, and files of its workspace that carry bundles. */
import { SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";

/** Output of a program in the guest; all of it is the guest's own word. */
export interface GuestOutput {
  code: number;
  stdout: string;
  stderr: string;
}

/** What bringing in and back needs of a VM. */
export interface Guest {
  /** name of the VM */
  name: string;
  /** path of its workspace in the guest */
  workspace: string;
  /** Runs a program as root, for at most `seconds`. */
  run(argv: string[], seconds: number): Promise<GuestOutput>;
  /** Writes a file of the workspace, of any size. */
  upload(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Reads a file of the workspace. */
  download(path: string): Promise<{ size?: number; body: AsyncIterable<Uint8Array> }>;
}

/** Exit codes of the scripts and their meanings. */
const REASONS: Record<number, [code: string, message: string, hint: string]> = {
  96: [
    "repo.guest_git",
    "the VM has no git",
    'add "git" to [packages] apt of its profile, and build its image',
  ],
  97: ["repo.exists", "the folder exists in the VM and is not empty", "give another place: --to PATH"],
  98: [
    "repo.diverged",
    "the VM has work of its own: its files were left as they are",
    "the new commits are there as host/BRANCH: merge them in the VM, or pull its work first",
  ],
  99: [
    "repo.guest_missing",
    "the folder that was brought in is gone from the VM",
    "bring it in again: sbx push DIR NAME",
  ],
};

/**
 * Runs a script with the shell of the guest.
 *
 * @throws {SbxError} `repo.*` of {@linkcode REASONS}; `repo.guest_failed`: with the last words of the guest
 */
export async function runScript(
  guest: Guest,
  script: string,
  args: string[],
  seconds: number,
): Promise<string> {
  const { code, stdout, stderr } = await guest.run(
    ["/bin/sh", "-c", script, "sbx-repository", ...args],
    seconds,
  );
  if (code === 0) return stdout;
  const reason = REASONS[code];
  if (reason) throw new SbxError(reason[0], `"${guest.name}": ${reason[1]}`, { hint: reason[2] });
  const words = plain(stderr.trim().split("\n").slice(-3).join(" "));
  throw new SbxError("repo.guest_failed", `git in "${guest.name}" failed: ${words || `exit code ${code}`}`, {
    hint: `sbx shell ${guest.name} to look at it; a full disk is the usual reason (df -h)`,
  });
}
