/** Commands of a session, run again in a VM of their own under a profile that is tried. */
import type { ExecResult, VmSummary } from "../../../lib/client/api/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { RecordedCommand } from "../../../lib/lab/learn/mod.ts";
import { profilePath, saveProfile } from "../../../lib/config/profile/mod.ts";
import { dirname } from "node:path";
import { waitUntilRunning } from "../vm/boot.ts";

/** Longest run of one command, in `s`. */
const COMMAND_SECS = 300;

/** A command that ended in another way than in its session. */
export interface Difference {
  command: RecordedCommand;
  exit_code: number;
  stderr: string;
}

/** Runs the commands under a profile of this text. @returns the first one that ended in another way */
export async function tryCommands(
  client: Client,
  commands: readonly RecordedCommand[],
  profile: { id: string; text: string },
): Promise<Difference | undefined> {
  await saveProfile(home(), profile.id, profile.text);
  try {
    const json = { profile_id: profile.id, persistent: false };
    const vm = await client.json<VmSummary>("POST", "/vms/create", { json });
    try {
      await waitUntilRunning(client, vm);
      for (const command of commands) {
        const { argv, cwd } = command;
        const { exit_code, stderr } = await client.json<ExecResult>("POST", `/vms/${segment(vm.id)}/exec`, {
          json: { command: argv, cwd, timeout_secs: COMMAND_SECS },
        });
        if (exit_code !== command.exit_code) return { command, exit_code, stderr };
      }
      return undefined;
    } finally {
      await client.json("DELETE", `/vms/${segment(vm.id)}/delete?force=true`);
    }
  } finally {
    await Deno.remove(dirname(profilePath(home(), profile.id)), { recursive: true });
  }
}
