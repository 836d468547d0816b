/** The network's ports: its interfaces to other parts of sbx. Loads none of the network's own code. */
export {
  type BodyFilter,
  type BodyPlace,
  CredentialDenied,
  type CredentialPort,
  type Destination,
  type Injected,
  type LaterAnswer,
  type MessageFilter,
  type MessagePlace,
  type ModelCall,
  type ModelDraft,
  type ModelPort,
  type ModelRequest,
  type ModelSocket,
  type NamePort,
  type Scrub,
  type SocketRequest,
  type SocketResponse,
  type Substituted,
} from "./port.ts";
export type { Header } from "../message/header.ts";
