/** SSH's keys, agents and signatures, for logins and for commits */
export { type AgentKey, agentKeys, signWithAgent } from "./agent.ts";
export { type PrivateKey, readPrivateKey } from "./private.ts";
export {
  checkSignature,
  isSshSecret,
  parsePublicKey,
  type PublicKey,
  publicKeyOf,
  readPublicKey,
  signPlain,
  SshKeyError,
  sshSignature,
} from "./public.ts";
export { mpint, string, uint32 } from "./wire.ts";
