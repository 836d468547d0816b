/** Engines of a fleet, fetched from an npm registry. */
export { engineFiles, type Fetched, fetchEngine, REGISTRY } from "./fetch.ts";
export { ENGINE_PACKAGES, type EnginePackage } from "./lock.ts";
export { enginesFolder } from "../engine.ts";
