/**
 * The HTTP gateway: access control between a TCP port and the service (docs/design/contracts/02-http.md §2,
 * "Gateway").
 */
export { BODY_MAX, Upstream } from "./upstream.ts";
export { desktopFolder, DesktopGate, DesktopPage, GatewayRun, Sessions } from "./desktop/mod.ts";
export { gatewayHandler, type GatewayParts } from "./handler.ts";
export { corsHeaders, parseTarget, preflight, requireLocalHost, requireLocalOrigin } from "./request.ts";
export { dropPermissions, GATEWAY_PERMISSIONS } from "./permission/mod.ts";
export {
  type MethodMatcher,
  methodMatcher,
  noRoute,
  pathMatcher,
  pathNamer,
  type RouteKey,
} from "./route.ts";
export { ROUTES } from "./routes.ts";
export { lockGateway, removeGatewayFiles, writeGatewayFiles } from "./runtime.ts";
export { bearer, newToken, TokenGate } from "./token.ts";
