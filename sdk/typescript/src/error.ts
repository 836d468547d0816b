/** Error of sbx, or of the way to it. Decide by `code`; show `message` and `hint` to people. */
export class SbxError extends Error {
  override readonly name: string = "SbxError";
  /** stable code, such as `vm.not_found` */
  readonly code: string;
  /** next step, if there is one */
  readonly hint: string | undefined;
  /** HTTP status; absent for an error of this program or of the connection */
  readonly status: number | undefined;

  constructor(
    code: string,
    message: string,
    { hint, status, cause }: { hint?: string; status?: number; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.code = code;
    this.hint = hint;
    this.status = status;
  }
}

/** A program that ended with another exit code than 0, where that was not allowed (`check`). */
export class ProgramError extends SbxError {
  override readonly name: string = "ProgramError";
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** event of the program in the record of its VM, for `why` */
  readonly eventId: string;

  constructor(result: { exitCode: number; stdout: string; stderr: string; eventId: string }) {
    const words = result.stderr.trimEnd().split("\n").at(-1);
    super("program.failed", `the program ended with ${result.exitCode}${words ? `: ${words}` : ""}`);
    this.exitCode = result.exitCode;
    this.stdout = result.stdout;
    this.stderr = result.stderr;
    this.eventId = result.eventId;
  }
}

/** Error in an answer of the API. */
export function answerError(status: number, text: string): SbxError {
  try {
    const { error, code, hint } = JSON.parse(text);
    if (typeof error === "string" && typeof code === "string") {
      return new SbxError(code, error, { hint, status });
    }
  } catch {
    // Not an answer of the API.
  }
  return new SbxError("gateway.bad_answer", `the gateway answered with status ${status} and no reason`, {
    status,
    hint: "restart it: sbx stop, then sbx start",
  });
}
