/**
 * The HTTP gateway: access control between a TCP port and the service (docs/design/contracts/02-http.md §2,
 * "Gateway").
 */
export { BODY_MAX, Upstream } from "./upstream.ts";
export { desktopFolder, DesktopGate, DesktopPage, GatewayRun, Sessions } from "./desktop/mod.ts";
export {
  corsHeaders,
  gatewayHandler,
  type GatewayParts,
  parseTarget,
  preflight,
  requireLocalHost,
  requireLocalOrigin,
} from "./handler.ts";
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
