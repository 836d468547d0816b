/** A Debian suite as host of VMs, in a root file system of its own, with the suite's own QEMU and helpers. */
import { fromRoot } from "../helper/repo.ts";
import { runChild } from "../helper/child.ts";

/** How a VM was started, as `sbx info` says it. */
export type StartedBy = "cold" | "template" | "resume";

/** Result of some starts in a row. */
export interface Starts {
  ok: number;
  of: number;
  /** times until a VM was ready, in `s`; absent when none was */
  median_s?: number;
  slowest_s?: number;
  /** one text for each failed start */
  failures: string[];
}

/** What boots.ts reports of a host: versions of its programs, and its starts. */
export interface HostReport {
  qemu: string;
  vsock: string;
  virtiofsd: string;
  cold: Starts;
  template: Starts;
  /** of one VM that is suspended again and again; absent where the host cannot do it */
  resume?: Starts;
}

/** A user of a suite; one who is not root is made when it is needed. */
export interface Host {
  suite: string;
  user: "root" | "person";
}

/**
 * Time limit in `ms` of the preparations, which download a file system and its
 * packages at first, and of one start.
 */
const PREPARATION_MS = 600_000;
const START_MS = 60_000;

const PREPARE_AND_BOOT = `
user=$1 count=$2
RUNS_ONLY=1 scripts/deps.sh >&2
id "$user" >/dev/null 2>&1 || useradd --create-home "$user"
exec runuser -u "$user" -- bash -euc '
export SBX_HOME=$(mktemp -d)
trap "rm -rf $SBX_HOME" EXIT
bin/sbx update --assets --manifest file:///src/main/.cache/image/manifest.json >&2
export SBX_TEST_ASSETS_DIR=$SBX_HOME/assets DENO_DIR=/src/main/.deno/cache
.deno/deno run -A --quiet --cached-only --no-check tests/hosts/boots.ts "$0"
' "$count"
`;

/**
 * Starts `count` VMs cold, as many from a template, and one as often from its memory. Entering a
 * root file system is root's work.
 */
export async function reportOf({ suite, user }: Host, count: number): Promise<HostReport> {
  const args = [suite, "bash", "-euc", PREPARE_AND_BOOT, "boots", user, `${count}`];
  const limit = PREPARATION_MS + 3 * count * START_MS;
  const { code, stdout, stderr } = await runChild(fromRoot("scripts/root.sh"), { args }, limit);
  const [said, log] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (code !== 0) throw new Error(`${suite}, ${user}: exit code ${code}\n${said}${log}`);
  return JSON.parse(said);
}
