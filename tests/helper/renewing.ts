/**
 * A process that renews the login `claude` of a store, unless another one was faster.
 * Arguments: store, proxy, CA file.
 */
import { useHostNetwork } from "../../lib/base/proxy/mod.ts";
import { CredentialStore, Subscriptions } from "../../lib/credential/mod.ts";

const [store, url, extra_ca_file] = Deno.args;
useHostNetwork({ proxy: { url }, extra_ca_file });
const logins = new Subscriptions(new CredentialStore(store));
await logins.renew({ login: "claude" }, ({ terms }) => terms.used!.length < 2);
