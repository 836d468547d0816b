/** A live repository: the guest shares the host's files, with a separate repository for them. */
import type { ProgressSink } from "../base/progress/mod.ts";
import { type BroughtIn, carry, nameRefs, reportOf, sizeOf } from "./bring.ts";
import { writeBundle } from "./git_bundle.ts";
import { type Guest, runScript } from "./guest.ts";
import { STEP_SECONDS } from "./limit.ts";
import { Room } from "./record.ts";
import { LIVE } from "./script.ts";
import { requireContent, takeSnapshot } from "./snapshot.ts";
import { sourcesOf } from "./source.ts";
import { storeOf } from "./store.ts";

/** Stages of {@linkcode bringLive} for a progress bar. */
export const LIVE_STAGES = [{ name: "reading", weight: 1 }, { name: "sending", weight: 3 }, {
  name: "comparing",
  weight: 6,
}];

export interface LiveOptions {
  /** folder of the person, which the guest has */
  dir: string;
  /** folder beside the VM's record */
  room: string;
  /** the folder in the guest */
  place: string;
  /** folder of the guest's repository, on its own disk */
  gitDir: string;
  progress: ProgressSink;
}

/**
 * Gives a guest that has a person's folder a repository with the history of that folder's. Submodules stay files.
 *
 * @throws {SbxError} `repo.empty`, `repo.exists`, `repo.guest_failed`, …
 */
export async function bringLive(guest: Guest, options: LiveOptions): Promise<BroughtIn> {
  const { place, gitDir, progress } = options;
  progress.stage("reading");
  const [source] = await sourcesOf(options.dir);
  const room = new Room(options.room);
  await Deno.mkdir(options.room, { recursive: true, mode: 0o700 });
  const store = await storeOf(source, room.store(0));
  // Without the secrets: their files are masked, and no commit of the guest has them.
  const state = await takeSnapshot(source, store, false);
  requireContent(state, source);
  const part = { source, store, state };
  progress.stage("sending", await sizeOf([part]));
  await nameRefs(part);
  const file = await carry(guest, writeBundle(store.git, []), progress);
  progress.stage("comparing");
  const [format, name, email] = await Promise.all([
    store.git.text(["rev-parse", "--show-object-format"]),
    source.git.text(["config", "user.name"]).catch(() => ""),
    source.git.text(["config", "user.email"]).catch(() => ""),
  ]);
  const shallow = await Deno.readTextFile(`${store.dir}/shallow`).catch(() => "");
  const { head = state.work, branch = "", work } = state;
  const args = [place, file, head, branch, work, format, shallow.trim(), name, email, gitDir];
  await runScript(guest, LIVE, args, STEP_SECONDS);
  const unit = { path: "", is_repository: true, head: state.head, branch: state.branch, work, pulled: {} };
  await room.write({ version: 1, dir: source.dir, place, is_live: true, units: [unit] });
  return reportOf([source], place, [state]);
}
