/** Routes of images, of templates made from them, and of the shared cache. */
import type { Hono } from "hono";
import { cacheRoutes, imageRoutes, type TemplateInfo, templateRoutes } from "../../../lib/client/api/mod.ts";
import { type Service, templateFor } from "../../../lib/service/mod.ts";
import { diskBytes, layersDir } from "../../../lib/release/environment/mod.ts";
import { listImages } from "../../../lib/config/profile/mod.ts";
import { cacheUse, clearCache } from "../../../lib/cache/mod.ts";
import { cacheLimits } from "../../../lib/home/mod.ts";
import { handle } from "../handle.ts";

/** Routes of images. */
export function routeImages(app: Hono, { home, images, registry }: Service): void {
  handle(app, imageRoutes.list, async () => ({
    images: (await listImages(home)).map((image) => ({
      ...image,
      used_by: registry.all().filter(({ record }) => record.profile_id === image.profile_id)
        .map(({ record }) => record.name),
    })),
  }));
  handle(
    app,
    imageRoutes.remove,
    async ({ params: { profile } }) => ({ profile_id: profile, ...await images.remove(profile) }),
  );
  handle(app, imageRoutes.prune, () => images.prune());
  handle(app, imageRoutes.environments, async () => ({
    environments: (await images.environments()).map(({ environment, ...rest }) => {
      const { key, digest, arch, created_at, config } = environment;
      const { signatures } = environment.provenance;
      return { key, digest, arch, created_at, config, ...(signatures && { signatures }), ...rest };
    }),
    layer_bytes: await diskBytes(layersDir(home)),
  }));
  handle(app, imageRoutes.removeEnvironment, ({ query }) => images.removeEnvironment(query.image));
  handle(app, imageRoutes.collectEnvironments, () => images.collectEnvironments());
}

/** Routes of the shared cache. */
export function routeCache(app: Hono, { home, settings }: Service): void {
  handle(app, cacheRoutes.info, async () => ({ ...cacheLimits(settings), ...await cacheUse(home.cacheDir) }));
  handle(app, cacheRoutes.clear, () => clearCache(home.cacheDir));
}

/** Routes of templates. */
export function routeTemplates(app: Hono, service: Service): void {
  const { templates } = service;
  handle(app, templateRoutes.list, async () => ({ templates: (await templates.list()).map(infoOf) }));
  handle(
    app,
    templateRoutes.make,
    async ({ body }) => infoOf(await templates.make(await templateFor(service, body))),
  );
  handle(app, templateRoutes.remove, async ({ params }) => {
    await templates.remove(params.id);
    return { id: params.id, deleted: true };
  });
}

type Template = Awaited<ReturnType<Service["templates"]["list"]>>[number];

function infoOf({ id, bytes, record: { created_at, key } }: Template): TemplateInfo {
  const { arch, cpus, ram_mb, accelerator, assets } = key;
  return { id, created_at, arch, cpus, ram_mb, accelerator, rootfs: assets.rootfs, bytes };
}
