/** Files that count only while no other user has changed or read them. */

/** Bits of a mode by which others than the owner may write, and by which they may read or write. */
const WRITE = 0o022, READ_WRITE = 0o077;

/** Terms of a file. */
export interface AccessTerms {
  /** `secret`: others may neither read nor write it; `unchanged`: they may read it */
  keep: "secret" | "unchanged";
  /**
   * `owns`: the file may be root's too; `shares`: others may also read root's file, which root has decided
   */
  root?: "owns" | "shares";
}

/** Why a file is not used, as the rest of a sentence that begins with its path, and the remedy. */
export interface AccessProblem {
  problem: string;
  hint: string;
}

/**
 * Tests the owner and the mode of a file that was found, best of the opened one.
 * @returns `undefined` if it may be used
 */
export function accessProblem(
  path: string,
  { isFile, uid, mode }: Pick<Deno.FileInfo, "isFile" | "uid" | "mode">,
  { keep, root }: AccessTerms,
): AccessProblem | undefined {
  if (!isFile) return { problem: "is not a file", hint: "name a file" };
  const isRoots = root !== undefined && uid === 0;
  if (uid !== null && uid !== Deno.uid() && !isRoots) {
    return {
      problem: "belongs to another user",
      hint: `check it, then make it yours: chown "$(id -un)" ${path}`,
    };
  }
  const bits = (mode ?? 0) & 0o777;
  const shown = `(mode ${bits.toString(8).padStart(4, "0")})`;
  if ((bits & WRITE) !== 0) {
    return {
      problem: `can be changed by other users ${shown}`,
      hint: `check it, then: chmod ${keep === "secret" ? "600" : "go-w"} ${path}`,
    };
  }
  if (keep === "unchanged" || (bits & READ_WRITE) === 0 || isRoots && root === "shares") return undefined;
  return { problem: `can be read by other users ${shown}`, hint: `chmod 600 ${path}` };
}
