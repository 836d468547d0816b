/** Agents that a person adds from a file: their signatures, their limits, and where each comes from. */
export { type AgentProfile, isAgent, listAgents } from "./list.ts";
export {
  type AddedAgent,
  AGENT_TYPE,
  type AgentOrigin,
  originOf,
  readAgentFile,
  removeAgent,
  storeAgent,
} from "./file.ts";
