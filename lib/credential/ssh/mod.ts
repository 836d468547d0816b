/** SSH keys of credentials, read from their files, and the logins that they make */
export { librarySignature, readSshSecret, signLogin } from "./key.ts";
