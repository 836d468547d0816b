import { SbxError } from "../../base/error/mod.ts";

/** Set-uid helpers of Debian's uidmap. */
const HELPERS = ["newuidmap", "newgidmap"];

/** Files of a host that name its users and their subordinate ids. */
const FILES = { users: "/etc/passwd", uids: "/etc/subuid", gids: "/etc/subgid" };

/** A check's view of the host; tests have hosts of their own. */
export interface UserHost {
  uid: number;
  find(name: string): string | undefined;
  /** text of a file; empty when it cannot be read */
  read(path: string): string;
}

/**
 * Checks that this user can share a workspace with a VM. For root there is nothing to check; the virtiofsd of any other
 * user runs in a user namespace, and needs uidmap and subordinate ids.
 *
 * @throws {SbxError} `host.tools_missing`, with the command that mends it
 */
export function checkUserNamespace({ uid, find, read }: UserHost): void {
  if (uid === 0) return;
  const missing = HELPERS.filter((name) => !find(name));
  if (missing.length > 0) {
    throw new SbxError(
      "host.tools_missing",
      `users who are not root cannot run VMs on this machine: ${missing.join(" and ")} not found`,
      { hint: "sudo apt-get install uidmap" },
    );
  }
  const name = rows(read(FILES.users)).find(([, , id]) => id === String(uid))?.[0];
  const has = (file: string) =>
    rows(read(file)).some(([owner, , count]) => [name, String(uid)].includes(owner) && Number(count) > 0);
  if (has(FILES.uids) && has(FILES.gids)) return;
  const user = name ?? String(uid);
  throw new SbxError(
    "host.tools_missing",
    `user ${user} cannot run VMs: no subordinate ids in ${FILES.uids} and ${FILES.gids}`,
    { hint: `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ${user}` },
  );
}

const rows = (text: string) => text.split("\n").map((line) => line.split(":"));
