import {
  ERROR_CHARACTERS,
  type GuestMessage,
  type GuestStage,
  type HostMessage,
} from "../../../lib/guest/wire/mod.ts";
import { CA_PATH, trust } from "./trust.ts";

/** Files of init: its measured stages, and the signal that the late mounts are done. */
const STAGES = "/run/sbx/stages";
const MOUNTED = "/run/sbx/mounted";
const MOUNT_POLL_MS = 5;
const MOUNT_DEADLINE_MS = 30_000;
/** Largest deviation of the clock that is not corrected, in `ms`: setting it costs a process. */
const CLOCK_TOLERANCE_MS = 1000;

type FileWrite = Extract<HostMessage, { t: "FileWrite" }>;

/** Applies the boot configuration, between `Ready` and `BootReady` (docs/contracts.md §7). */
export class BootConfig {
  /** variables of every program in this VM */
  readonly environment: Record<string, string> = {
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    HOME: "/root",
    USER: "root",
    LANG: "C.UTF-8",
  };
  #started = uptimeMs();
  #clock: Promise<unknown> = Promise.resolve();
  #failures: string[] = [];

  setClock(epochMs: number): void {
    if (Math.abs(Date.now() - epochMs) <= CLOCK_TOLERANCE_MS) return;
    // In parallel with the handshake, which does not use the clock.
    this.#clock = new Deno.Command("date", { args: ["-s", `@${epochMs / 1000}`] }).output();
  }

  async writeFile({ path, content, mode }: FileWrite): Promise<void> {
    try {
      await Deno.mkdir(path.slice(0, path.lastIndexOf("/")) || "/", { recursive: true });
      await Deno.writeFile(path, Uint8Array.fromBase64(content), { mode });
      await Deno.chmod(path, mode);
      if (path === CA_PATH) await trust(atob(content));
    } catch (error) {
      this.#failures.push(`${path}: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** Waits for init's late mounts, then returns the result of the boot. */
  async finish(): Promise<GuestMessage> {
    await this.#clock;
    const deadline = performance.now() + MOUNT_DEADLINE_MS;
    while (!exists(MOUNTED)) {
      if (performance.now() > deadline) {
        return { t: "BootFailed", error: `init's mounts were not ready after ${MOUNT_DEADLINE_MS / 1000} s` };
      }
      await new Promise((resolve) => setTimeout(resolve, MOUNT_POLL_MS));
    }
    if (this.#failures.length > 0) {
      return { t: "BootFailed", error: this.#failures.join("; ").slice(0, ERROR_CHARACTERS) };
    }
    return {
      t: "BootReady",
      stages: [...initStages(), { name: "agent", ms: this.#started }, { name: "ready", ms: uptimeMs() }],
    };
  }
}

function initStages(): GuestStage[] {
  return Deno.readTextFileSync(STAGES).trim().split("\n").map((line) => {
    const [name, seconds] = line.split(" ");
    return { name, ms: Number(seconds) * 1000 };
  });
}

function uptimeMs(): number {
  return Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]) * 1000;
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}
