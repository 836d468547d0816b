import type { Hono } from "hono";
import { credentialRoutes } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { CredentialStore, isForVms, REF, SIGNING, storePath } from "../../../lib/credential/mod.ts";
import {
  addedProviders,
  auditCredentials,
  type AuditedSession,
  credentialView,
  type GivenVm,
  type GrantedVm,
  isShown,
  Loans,
  newCredential,
  providerViews,
  type SecretPrograms,
  signingCredential,
  sshTerms,
  usersOf,
  vmsWith,
} from "../../../lib/service/mod.ts";
import { recordStep } from "../../../lib/release/setup/mod.ts";
import type { CorpStore } from "../../../lib/config/corp/mod.ts";
import { handle } from "../handle.ts";

interface CredentialSources {
  corp?: Pick<CorpStore, "state">;
  secrets: Pick<SecretPrograms, "problemOf" | "accept" | "provideAll">;
  /** running VMs that may use credentials */
  runningVms(): Promise<GrantedVm[]>;
  /** sessions with the names of their VMs */
  sessions?(): Promise<AuditedSession[]>;
  /** writes files of a provider's keys into running VMs */
  give?(provider: string): Promise<GivenVm[]>;
}

/** Routes of the credential store and of its audit (docs/design/contracts/09-credentials.md §9). */
export function routeCredentials(
  app: Hono,
  home: Home,
  { corp, secrets, runningVms, sessions, give }: CredentialSources,
): void {
  const store = new CredentialStore(storePath(home));
  const loans = new Loans(store);
  loans.look();

  handle(
    app,
    credentialRoutes.providers,
    async () => ({ providers: providerViews(await addedProviders(home, corp)) }),
  );
  handle(app, credentialRoutes.list, async () => {
    const [all, vms] = [store.list(), await runningVms()];
    return {
      credentials: all.filter(isShown).map((entry) =>
        credentialView(entry, secrets.problemOf(entry.ref), usersOf(entry, all, vms))
      ),
    };
  });
  handle(app, credentialRoutes.add, async ({ body }) => {
    const ssh = body.ssh && await sshTerms(body);
    const credential = body.provider === SIGNING
      ? await signingCredential(body)
      : newCredential(body, await addedProviders(home, corp), ssh);
    const keep = body.origin &&
      await secrets.accept(body.origin, { provider: credential.provider, key: body.secret });
    const [entry] = await store.add([credential]);
    keep?.(entry.ref);
    if (entry.loan) loans.look();
    if (keep) await secrets.provideAll(entry.ref);
    if (!isForVms(entry)) await recordStep(home, "providers");
    const given = entry.decoy || isForVms(entry) ? [] : await give?.(entry.provider) ?? [];
    const running = vmsWith(entry, await runningVms()).map((vm) => {
      const problem = given.find(({ name }) => name === vm.name)?.problem;
      return { ...vm, ...(problem !== undefined && { problem }) };
    });
    return { ...credentialView(entry), running };
  });
  handle(app, credentialRoutes.revoke, async ({ params }) => {
    if (!REF.test(params.ref)) {
      throw new SbxError("credential.not_found", "invalid ref of a credential", {
        hint: "sbx credentials list shows the refs",
      });
    }
    return credentialView(await store.revoke(params.ref));
  });
  handle(app, credentialRoutes.audit, async ({ query }) => auditCredentials(home, query, await sessions?.()));
}
