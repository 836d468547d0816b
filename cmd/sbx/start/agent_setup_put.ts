/** A setup on its way into a VM. */
import type { FileWritten } from "../../../lib/client/api/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { GuestFile, Setup } from "../../../lib/setup/mod.ts";
import { incompleteError } from "../files/cp_remote.ts";

/** Files written at once. */
const WRITES_AT_ONCE = 8;

/** A setup with the answer of its person. */
export interface ChosenSetup {
  setup: Setup;
  /** ids of its programs that go */
  approved: ReadonlySet<string>;
}

/** Writes a setup's files into a running VM. */
export async function putSetup(client: Client, name: string, files: readonly GuestFile[]): Promise<void> {
  const waiting = [...files];
  const write = async () => {
    for (let file = waiting.shift(); file; file = waiting.shift()) {
      const { path, bytes, mode } = file;
      const written = await client.json<FileWritten>("POST", `/vms/${segment(name)}/files/content`, {
        query: { path, mode },
        body: new Uint8Array(bytes),
      });
      if (written.size !== bytes.length) throw incompleteError(path, written.size, bytes.length);
    }
  };
  await Promise.all(Array.from({ length: WRITES_AT_ONCE }, write));
}
