import { cacheRoutes } from "./cache.ts";
import { credentialRoutes } from "./credential.ts";
import { diskRoutes } from "./disk.ts";
import { debugRoutes } from "./debug.ts";
import { detectionRoutes } from "./detection.ts";
import { fileRoutes } from "./file.ts";
import { imageRoutes } from "./image.ts";
import { jobRoutes } from "./job.ts";
import { loginRoutes } from "./login.ts";
import { mcpRoutes } from "./mcp.ts";
import { policyRoutes } from "./policy.ts";
import { portRoutes } from "./port.ts";
import { profileRoutes } from "./profile.ts";
import { reportRoutes } from "./report.ts";
import { securityRoutes } from "./security.ts";
import { sessionRoutes } from "./session.ts";
import { settingsRoutes } from "./settings.ts";
import { sinkRoutes } from "./sink.ts";
import { snapshotRoutes } from "./snapshot.ts";
import { stateRoutes } from "./state.ts";
import { systemRoutes } from "./system.ts";
import { taskRoutes } from "./task.ts";
import { templateRoutes } from "./template.ts";
import { updateRoutes } from "./update.ts";
import { vmRoutes } from "./vm.ts";
import { workRoutes } from "./work.ts";

/** Definitions of all routes, one group per resource. */
export const ROUTE_GROUPS = {
  system: systemRoutes,
  update: updateRoutes,
  debug: debugRoutes,
  vm: vmRoutes,
  job: jobRoutes,
  port: portRoutes,
  task: taskRoutes,
  template: templateRoutes,
  image: imageRoutes,
  cache: cacheRoutes,
  disk: diskRoutes,
  file: fileRoutes,
  snapshot: snapshotRoutes,
  work: workRoutes,
  state: stateRoutes,
  security: securityRoutes,
  session: sessionRoutes,
  report: reportRoutes,
  policy: policyRoutes,
  settings: settingsRoutes,
  sink: sinkRoutes,
  profile: profileRoutes,
  mcp: mcpRoutes,
  credential: credentialRoutes,
  login: loginRoutes,
  detection: detectionRoutes,
};
