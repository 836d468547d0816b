/**
 * The folder that a VM shares with its host, from the host's side. The guest may put any link, pipe or device
 * into it.
 */
export { guestPath, relativePath, Workspace } from "./workspace.ts";
