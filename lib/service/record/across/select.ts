/** Sessions of a question about more than one. */
import { didYouMean } from "../../../base/text/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import type { Home } from "../../../base/home/mod.ts";
import type { SessionEntry } from "../../../ledger/read/mod.ts";
import { sessionPaths } from "../../../session/mod.ts";
import type { RecordedSession } from "./merge.ts";

/** Which sessions: all of them, or the sessions of a profile or of a VM. */
export interface SessionChoice {
  profile?: string;
  /** name or id of a VM, deleted or not: every session of that name */
  vm?: string;
}

/** True for a session of that profile and VM. */
export function isChosen(
  { id, name, profile_id }: SessionEntry,
  { profile, vm }: SessionChoice,
): boolean {
  return (profile === undefined || profile === profile_id) && (vm === undefined || vm === id || vm === name);
}

/** @throws {SbxError} `session.not_found` */
export function chooseSessions(
  home: Home,
  sessions: readonly SessionEntry[],
  choice: SessionChoice,
): RecordedSession[] {
  const { profile, vm } = choice;
  const chosen = sessions.filter((entry) => isChosen(entry, choice));
  if (chosen.length === 0 && (profile ?? vm) !== undefined) {
    const isKnown = vm === undefined || sessions.some(({ id, name }) => vm === id || vm === name);
    const [word, kind, names] = isKnown
      ? [profile ?? vm!, "of the profile", sessions.map(({ profile_id }) => profile_id)]
      : [vm!, "of a VM", sessions.map(({ name }) => name)];
    throw new SbxError("session.not_found", `no session ${kind} "${word}" is on record`, {
      hint: didYouMean(word, names) ?? "sbx sessions lists the recorded sessions with their profiles",
    });
  }
  return chosen.map((entry) => ({ ...entry, ledger: sessionPaths(home, entry.id).ledger }));
}
