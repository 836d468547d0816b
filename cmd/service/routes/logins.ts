import type { Hono } from "hono";
import { loginRoutes } from "../../../lib/client/api/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { CredentialStore, storePath, Subscriptions } from "../../../lib/credential/mod.ts";
import { type FileParts, giveLoginFiles, HostLogins, type Service } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of subscriptions' logins (docs/design/contracts/09-credentials.md §9, "Subscriptions"). */
export function routeLogins(
  app: Hono,
  home: Home,
  { supervisor, records }: Pick<Service, "supervisor" | "records">,
): void {
  const parts: FileParts = { ready: (...of) => supervisor.ready(...of), records };
  const logins = new HostLogins(
    new Subscriptions(new CredentialStore(storePath(home))),
    (login) => giveLoginFiles({ home, vms: supervisor.alive(), parts }, login),
    (id) => supervisor.alive().find(({ record }) => record.id === id)?.record.name ?? id,
  );

  handle(app, loginRoutes.list, () => logins.list());
  handle(app, loginRoutes.begin, ({ params: { id }, body }) => logins.begin(id, body));
  handle(
    app,
    loginRoutes.code,
    ({ params: { id }, body }) => logins.code(keyOf(id, body.label), body.code, body.attempt),
  );
  handle(
    app,
    loginRoutes.keep,
    ({ params: { id }, body }) => logins.keep(id, body.ref, body.label),
  );
  handle(
    app,
    loginRoutes.state,
    ({ params: { id }, query }) => logins.state(keyOf(id, query.label), query.attempt),
  );
  handle(app, loginRoutes.remove, ({ params: { id }, query }) => logins.remove(keyOf(id, query.label)));
}

function keyOf(login: string, label: string | undefined) {
  return { login, ...(label !== undefined && { label }) };
}
