import type { Hono } from "hono";
import { imageRoutes } from "../../../lib/client/api/mod.ts";
import type { Service } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of images. */
export function routeImages(app: Hono, { images }: Service): void {
  handle(
    app,
    imageRoutes.remove,
    async ({ params: { profile } }) => ({ profile_id: profile, ...await images.remove(profile) }),
  );
  handle(app, imageRoutes.prune, () => images.prune());
}
