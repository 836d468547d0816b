/** Who and where: users of this machine, and its name. */
export { findUser, type LocalUser, localUsers, readAsUser } from "./local.ts";
export { deviceName, userName } from "./own.ts";
