/**
 * The credential broker (docs/design/contracts/09-credentials.md §9): secrets stay on the host, guests and
 * records hold refs.
 */
export { type BrokerOptions, CredentialBroker, type ProvidedSecrets } from "./broker.ts";
export { type SinkAuth, sinkAuthorization } from "./sink.ts";
export { type AwsKeys, awsKeysOf, joinAwsKeys } from "./aws/keys.ts";
export { packRoleKeys } from "./aws/role_key.ts";
export { AWS_VARIABLES } from "./aws/placeholder.ts";
export { placeholderOf, TOKEN_BODY_MAX } from "./body.ts";
export { SECRET_MAX, SECRET_MIN } from "./form.ts";
export { REF, REF_PREFIX, refOf } from "./ref.ts";
export { decoySecret, providerOfToken } from "./token.ts";
export {
  ENTRIES_MAX,
  isForVms,
  isOver,
  type KeyPlace,
  LABEL_MAX,
  type LoanTerms,
  type LoginPlace,
  type LoginTerms,
  type Obtained,
  type SecretOrigin,
  type SshServer,
  type SshTerms,
  type StoredEntry,
  type StoreFile,
} from "./entry.ts";
export { chosenOf, isLeft, isUsable, type LabelTable } from "./choice.ts";
export { packAzureCertificate, packAzureSecret } from "./cloud/azure_key.ts";
export { readGoogleFile } from "./cloud/key_file.ts";
export type { CloudTerms } from "./cloud/terms.ts";
export { Finder } from "./finder.ts";
export { DecoyUsed, REASON } from "./grant.ts";
export { obtainSecret } from "./program.ts";
export { findKeyring, type Keyring } from "./key.ts";
export { Logins, type LoginView, type OpenLogin } from "./login.ts";
export { ACCOUNTS, type Accounts } from "./account.ts";
export { Catalogue, claimantOf, hostTest } from "./catalogue.ts";
export {
  type CustomProvider,
  type Definition,
  definitionOf,
  DEFINITIONS,
  isProvider,
  type Provider,
  PROVIDERS,
} from "./provider.ts";
export { SIGNING, type SigningKey } from "./signing.ts";
export {
  type LoginProvider,
  type Subscription,
  type SubscriptionKey,
  Subscriptions,
} from "./subscription/subscriptions.ts";
export { CredentialStore, type NewCredential, storePath } from "./store.ts";
export { CAPTURED_MAX } from "./vault.ts";
export { holdsToken, looksSecret, withoutSecretWords } from "./scrub.ts";
