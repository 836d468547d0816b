/**
 * Programs stand still while the machine is written down: a copy's programs must not run before it is another
 * machine. The original is notified at once, on its console: its vsock comes back later.
 */
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { mount } from "../../../ffi/libc/machine.ts";
import { GO_ON } from "../../../lib/machine/guest/wire/mod.ts";
import { onLine } from "./connect.ts";

/** Where the kernel's groups of processes are seen; each can be frozen. */
const GROUPS = "/run/sbx/groups";
const PROGRAMS = `${GROUPS}/programs`;
/** Longest wait in `ms` until all stand still, and between two checks; a program may wait for its disk. */
const FREEZE_MS = timeLimit(1000);
const POLL_MS = 1;

/** Every program of the guest but init and this one. */
export class Hold {
  /** groups that stand still */
  #frozen: string[] = [];
  #listens = false;

  /** Stops them. A guest whose root prevents it is copied anyway: it harms only itself. */
  async take(): Promise<void> {
    try {
      if (!this.#listens) onLine(GO_ON, () => this.release());
      this.#listens = true;
      prepare();
      gather();
      const groups = Array.from(Deno.readDirSync(GROUPS)).filter(({ isDirectory }) => isDirectory)
        .map(({ name }) => `${GROUPS}/${name}`);
      this.#frozen = groups.filter((group) => read(`${group}/cgroup.freeze`) === "0");
      for (const group of this.#frozen) Deno.writeTextFileSync(`${group}/cgroup.freeze`, "1");
      await untilFrozen(this.#frozen);
    } catch (error) {
      console.error("sbx-pty-agent: programs run while the machine is written down:", error);
    }
  }

  release(): void {
    for (const group of this.#frozen.splice(0)) {
      try {
        Deno.writeTextFileSync(`${group}/cgroup.freeze`, "0");
      } catch {
        // removed by a program of the guest
      }
    }
  }
}

function prepare(): void {
  try {
    Deno.lstatSync(PROGRAMS);
  } catch {
    Deno.mkdirSync(GROUPS, { recursive: true });
    mount("cgroup2", GROUPS);
    Deno.mkdirSync(PROGRAMS);
  }
}

/** Moves all programs into one group; their children start there. */
function gather(): void {
  const own = new Set(["1", `${Deno.pid}`]);
  for (let moved = true; moved;) {
    moved = false;
    for (const pid of read(`${GROUPS}/cgroup.procs`).split("\n")) {
      if (own.has(pid)) continue;
      // The kernel's own threads have no program, and neither have processes that ended meanwhile.
      own.add(pid);
      try {
        Deno.readLinkSync(`/proc/${pid}/exe`);
        Deno.writeTextFileSync(`${PROGRAMS}/cgroup.procs`, pid);
        moved = true;
      } catch {
        continue;
      }
    }
  }
}

async function untilFrozen(groups: readonly string[]): Promise<void> {
  const deadline = performance.now() + FREEZE_MS;
  while (groups.some((group) => !read(`${group}/cgroup.events`).includes("frozen 1"))) {
    if (performance.now() > deadline) throw new Error("a program does not stop");
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function read(path: string): string {
  return Deno.readTextFileSync(path).trim();
}
