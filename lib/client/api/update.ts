/** Routes of updates (docs/design/contracts/02-http.md §2, "Updates"). */
import { createRoute, z } from "@hono/zod-openapi";
import { UpdateStatus as Status } from "../../publish/update/schema.ts";
import { answers } from "./common.ts";

// Another object: the shape may have been made before the library for OpenAPI was loaded, which extends only
// objects made later.
export const UpdateStatus = z.object(Status.shape).openapi("UpdateStatus");
export type { UpdateStatus as UpdateStatusBody } from "../../publish/update/schema.ts";

const tags = ["update"];

export const updateRoutes = {
  status: createRoute({
    method: "get",
    path: "/update/status",
    tags,
    responses: answers("installed version, its origin, and the result of the last check", UpdateStatus),
  }),
  check: createRoute({
    method: "post",
    path: "/update/check",
    tags,
    responses: answers("the channel is checked; nothing is installed", UpdateStatus),
  }),
};
