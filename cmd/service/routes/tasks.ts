import type { Hono } from "hono";
import { taskRoutes } from "../../../lib/client/api/mod.ts";
import { listAgents } from "../../../lib/config/agent/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { listFolders, requireFolder, type Service } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of work for clients without a terminal: images are built, agents started. */
export function routeTasks(app: Hono, { home, tasks }: Pick<Service, "home" | "tasks">): void {
  handle(app, taskRoutes.list, () => ({ tasks: tasks.list() }));
  handle(app, taskRoutes.cancel, ({ params }) => tasks.cancel(params.id));
  handle(app, taskRoutes.build, async ({ params: { profile } }) => {
    await loadProfile(home, profile);
    return tasks.running("image", profile) ??
      tasks.start({ kind: "image", subject: profile, args: ["image", "build", profile, "--json"] });
  });
  handle(app, taskRoutes.agents, async () => ({
    agents: (await listAgents(home)).map(({ profile, version }) => {
      const { id, name, description, source, agent: { provider, reads } } = profile;
      return { id, name, description, provider, reads, source, version };
    }),
  }));
  handle(app, taskRoutes.start, async ({ params: { id }, body: { dir, prompt, name, credential } }) => {
    await loadProfile(home, id);
    await requireFolder(dir);
    const args = [
      ...["agent", "run", id, dir, "--detach", "--json", "--new", "--build"],
      ...prompt === undefined ? [] : ["--prompt", "-"],
      ...name === undefined ? [] : ["--name", name],
      ...credential === undefined ? [] : [`--credential=${credential}`],
    ];
    return tasks.start({ kind: "agent", subject: id, args, input: prompt });
  });
  handle(app, taskRoutes.folders, ({ query }) => listFolders(query.path));
}
