/** Docker's logins of this machine in a build's VM: refs that only it can use, while it builds. */
import { asSbxError, ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { backgroundInterval } from "../../../lib/base/time/mod.ts";
import type { CredentialAdded, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { BuildPlan, Login } from "../../../lib/publish/build/mod.ts";
import type { HostLogin } from "../../../lib/publish/environment/mod.ts";

/**
 * Registries whose tokens come from another host, which gets the password. That host may serve more than
 * tokens: the login is for this path only.
 */
const TOKEN_PLACES: Record<string, { host: string; path?: string }> = {
  "docker.io": { host: "auth.docker.io" },
  "registry.gitlab.com": { host: "gitlab.com", path: "/jwt/auth" },
};
/** Time for which a VM is lent a login, in `seconds`; the build says so again after a third of it. */
const LOAN_S = 600;

/** Logins of a build, which end with it. */
export interface LentLogins extends AsyncDisposable {
  logins: Login[];
  /** begins their time again, as a timer does; never one that a person revoked */
  renew(): Promise<void>;
}

/** A login that a VM is lent. */
interface Loan {
  found: HostLogin;
  /** of this build and registry: another machine that uses this service may build in the same VM */
  id: string;
  ref: string;
}

/**
 * Finds Docker's logins for the base images of a build, and gives the VM a ref for each. The passwords stay
 * on this host. An image may be public: a login that cannot be used is named, and the build goes on.
 */
export async function lendLogins(
  client: Pick<Client, "json">,
  vm: Pick<VmSummary, "id" | "name">,
  plan: Pick<BuildPlan, "args" | "context" | "logins">,
): Promise<LentLogins> {
  const [{ baseReferences, featureReferences }, { findLogin }] = await Promise.all([
    import("../../../lib/publish/build/mod.ts"),
    import("../../../lib/publish/environment/mod.ts"),
  ]);
  const logins: Login[] = [];
  let loans: Loan[] = [];
  const named = new Set(plan.logins.map(({ registry }) => registry));
  const references = [
    ...baseReferences(plan.context.dockerfile, plan.args),
    ...featureReferences(plan.context.features),
  ];
  for (const reference of references) {
    const { registry } = reference;
    if (registry === undefined || named.has(registry)) continue;
    try {
      const found = await findLogin(reference);
      if (!found || logins.some((login) => login.registry === found.registry)) continue;
      if (found.isToken) {
        throw new SbxError("environment.login", "Docker has an identity token for it, which no VM can use", {
          hint: "store its password, as sbx credentials add --help shows, and build with --login",
        });
      }
      const id = crypto.randomUUID();
      const { ref } = await lend(client, found, vm, { id });
      logins.push({ registry: found.registry, user: found.user, ref });
      loans.push({ found, id, ref });
      note(
        `sbx: logging in to ${plain(found.registry)} as ${plain(found.user)}: Docker's login of this machine`,
      );
    } catch (error) {
      const { message } = asSbxError(error, "using Docker's login");
      note(`sbx: no login at ${plain(registry)}: ${plain(message)}`);
      named.add(registry);
    }
  }
  const renewed = async (loan: Loan): Promise<Loan[]> => {
    try {
      await lend(client, loan.found, vm, { id: loan.id, renews: true });
    } catch (error) {
      const { code, message } = asSbxError(error, "lending it");
      const isOver = code === "credential.not_found";
      const what = isOver ? "has ended for the build" : "may end early for the build";
      note(`sbx: the login at ${plain(loan.found.registry)} ${what}: ${plain(message)}`);
      if (isOver) return [];
    }
    return [loan];
  };
  let renewing = Promise.resolve();
  const renew = () =>
    renewing = renewing.then(async () => {
      loans = (await Promise.all(loans.map(renewed))).flat();
    });
  const timer = backgroundInterval(renew, LOAN_S * 1000 / 3);
  return {
    logins,
    renew,
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      // One that comes later would stay until its time is over.
      await renewing;
      await end(client, loans.map(({ ref }) => ref));
    },
  };
}

async function lend(
  client: Pick<Client, "json">,
  found: HostLogin,
  vm: Pick<VmSummary, "id" | "name">,
  terms: { id: string; renews?: true },
): Promise<CredentialAdded> {
  const { claimantOf, DEFINITIONS } = await import("../../../lib/credential/mod.ts");
  const registry = found.registry.split("/")[0];
  const { host, path } = TOKEN_PLACES[registry] ?? { host: registry };
  return await client.json<CredentialAdded>("POST", "/credentials/add", {
    json: {
      provider: claimantOf(host, DEFINITIONS)?.id ?? "registry",
      host,
      secret: found.password,
      label: `Docker's login for ${vm.name}`,
      vm: vm.id,
      loan: { ...terms, seconds: LOAN_S, ...(path !== undefined && { path }) },
    },
  });
}

async function end(client: Pick<Client, "json">, refs: readonly string[]): Promise<void> {
  for (const ref of refs) {
    await client.json("DELETE", `/credentials/${segment(ref)}`).catch(
      ignore("only this VM can use it, and it ends by itself"),
    );
  }
}
