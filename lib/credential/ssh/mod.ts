/** SSH keys of credentials: files, public keys, agents of the host, and signatures for logins */
export { type AgentKey, agentKeys } from "./agent.ts";
export { fingerprintOf, isSshSecret, KEY_TYPES, parsePublicKey, publicKeyOf, readPrivateKey } from "./key.ts";
