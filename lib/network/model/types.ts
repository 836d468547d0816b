/** Types of the reader of model calls; the network's port declares the reader's interface. */
import type { ModelEvent } from "../../event/mod.ts";
import type { ModelCall as PortCall } from "../interface/mod.ts";

export type { Header, LaterAnswer, ModelDraft, ModelRequest, ModelSocket, Scrub } from "../interface/mod.ts";
/** Reader of one call; every family of models can rewrite. */
export type ModelCall = Required<PortCall>;
export type ModelResponse = NonNullable<ModelEvent["response"]>;
