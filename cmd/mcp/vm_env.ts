/** Environment of a VM that an agent may choose: names that neither sbx nor a loader or tool takes for an order. */
import { SbxError } from "../../lib/base/error/mod.ts";

/** Names that may be set, and endings and beginnings of such names. */
const NAMES = new Set([
  ...["CI", "COLUMNS", "DEBUG", "EDITOR", "FORCE_COLOR", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "PAGER"],
  ...["PORT", "HOST", "TERM", "TZ", "VERBOSE", "VISUAL", "COLORTERM", "CLICOLOR", "SOURCE_DATE_EPOCH"],
  ...[
    "NODE_ENV",
    "DENO_ENV",
    "BUN_ENV",
    "RAILS_ENV",
    "RACK_ENV",
    "APP_ENV",
    "FLASK_ENV",
    "MIX_ENV",
    "GO_ENV",
  ],
  ...["LOG_LEVEL", "RUST_LOG", "RUST_BACKTRACE", "GOMAXPROCS", "CARGO_TERM_COLOR"],
  ...["PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "UV_THREADPOOL_SIZE", "OMP_NUM_THREADS"],
]);
const PATTERN =
  /^(?:LC_[A-Z]+|(?:APP|DEMO|MY|TEST|VITE|NEXT_PUBLIC|REACT_APP|DATABASE|DB|POSTGRES|PG|MYSQL|REDIS)_[A-Z0-9_]*)$/;
/** Reasons by beginnings, for names that are refused with more than "not on the list". */
const REASONS: [RegExp, string][] = [
  [/^SBX_/i, "it steers sbx itself, on the host too"],
  [/^LD_|^DYLD_|^GLIBC_/i, "it changes which libraries every program of the VM loads"],
  [/_proxy$/i, "it leads the VM's requests elsewhere"],
  [
    /(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?)(?:_|$)/i,
    "credentials stay on the host, and the VM gets refs",
  ],
];

/**
 * Checks the names of a VM's environment that an agent of the host gave.
 *
 * @throws {SbxError} `mcp.env_refused`: names that are not allowed, each with its reason
 */
export function requireVmEnv(env: Record<string, string> | undefined): void {
  const refused = Object.keys(env ?? {}).flatMap((name) => {
    const shown = JSON.stringify(name).slice(1, -1);
    const reason = REASONS.find(([pattern]) => pattern.test(name))?.[1];
    if (reason !== undefined) return [`${shown}: ${reason}`];
    return NAMES.has(name) || PATTERN.test(name)
      ? []
      : [`${shown}: not on the list of names that agents may set`];
  });
  if (refused.length === 0) return;
  throw new SbxError("mcp.env_refused", `environment of the VM refused: ${refused.join("; ")}`, {
    hint: "give variables to single programs: env of exec and start_job",
  });
}
