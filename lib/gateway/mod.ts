/** The HTTP gateway: who may speak to the service from a TCP port, and how (contracts.md §2). */
export { BODY_MAX } from "./body.ts";
export { gatewayHandler, type GatewayParts } from "./handler.ts";
export { dropPermissions, GATEWAY_PERMISSIONS } from "./permission.ts";
export { routeMatcher } from "./route.ts";
export { lockGateway, removeGatewayFiles, writeGatewayFiles } from "./runtime.ts";
export { newToken, TokenGate } from "./token.ts";
export { Upstream } from "./upstream.ts";
