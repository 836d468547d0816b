/** The file server of a machine that has a folder of the host in its workspace. */
import { selfCommand } from "../../base/spawn/mod.ts";
import type { LiveShare } from "../live/schema.ts";

/** Arguments of unshare for a user who is not root: root of a user namespace with the user's subordinate ids (/etc/subuid). */
export const AS_ROOT_OF_A_NAMESPACE = ["--map-root-user", "--map-auto", "--mount"];

/** A folder of the host for a guest. */
export interface LiveMount {
  share: LiveShare;
  /** folder of the workspace in whose place it is */
  at: string;
}

/**
 * Puts the folder into the workspace, where only this program and its children see it, and starts the guard
 * of the file server. A user who is not root is root of a user namespace for that.
 */
const SCRIPT = 'mount --rbind -- "$1" "$2" && shift 2 && exec setpriv --pdeathsig KILL -- "$@"';

/** Arguments of unshare for a file server with a folder of the host. @param first commands of the shell before the mount */
export function liveArguments({ share, at }: LiveMount, server: string[], first = ""): string[] {
  const { cmd, args } = selfCommand("live", [JSON.stringify(share), ...server]);
  return [
    ...Deno.uid() === 0 ? ["--mount"] : AS_ROOT_OF_A_NAMESPACE,
    "--",
    "/bin/sh",
    "-c",
    first + SCRIPT,
    "sh",
    share.dir,
    at,
    cmd,
    ...args,
  ];
}
