/** The network's ports: its interfaces to other parts of sbx. Loads none of the network's own code. */
export {
  type BodyFilter,
  type BodyPlace,
  CredentialDenied,
  type CredentialPort,
  type Destination,
  type Injected,
  type MessageFilter,
  type MessagePlace,
  type Substituted,
} from "./credential.ts";
export type {
  LaterAnswer,
  ModelCall,
  ModelDraft,
  ModelPort,
  ModelRequest,
  ModelSocket,
  Scrub,
  SocketRequest,
  SocketResponse,
} from "./model.ts";
export type { NamePort } from "./name.ts";
export type { Header } from "../message/header.ts";
