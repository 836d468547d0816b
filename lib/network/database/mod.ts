/** Databases of a guest: the host gives the password, and each statement is an event */
export { DatabaseProxy } from "./proxy.ts";
