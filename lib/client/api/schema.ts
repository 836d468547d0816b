/**
 * Requests and responses of the HTTP API, without the table of routes: also for
 * pages, which need their types alone.
 */
export * from "./common.ts";
export * from "./credential.ts";
export * from "./debug.ts";
export * from "./disk.ts";
export * from "./detection.ts";
export * from "./file.ts";
export * from "./job.ts";
export * from "./login.ts";
export * from "./mcp.ts";
export * from "./policy.ts";
export * from "./port.ts";
export * from "./profile.ts";
export * from "./report.ts";
export * from "./security.ts";
export * from "./session.ts";
export * from "./settings.ts";
export * from "./sink.ts";
export * from "./snapshot.ts";
export * from "./socket.ts";
export * from "./state.ts";
export * from "./system.ts";
export * from "./cache.ts";
export * from "./image.ts";
export * from "./task.ts";
export * from "./template.ts";
export * from "./update.ts";
export * from "./vm.ts";
export * from "./work.ts";
export type * from "./typed.ts";
