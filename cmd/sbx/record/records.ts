import type { Arguments } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";

/** Option of commands that ask a server for records. */
export const CREDENTIAL = [
  { name: "credential", value: "REF", about: "stored password for the user of clickhouse://USER@HOST" },
];

/** Makes the `authorization` header for the server that `--over` names; `undefined` without a credential. */
export function recordsAuthorization(args: Arguments): ((url: URL) => Promise<string>) | undefined {
  const credential_ref = args.text("credential");
  if (credential_ref === undefined) return undefined;
  const user = /^clickhouse:\/\/([^@/]+)@/.exec(args.text("over") ?? "")?.[1];
  return async (url) => {
    const { sinkAuthorization } = await import("../../../lib/credential/mod.ts");
    const terms = { credential_ref, ...(user !== undefined && { user: decodeURIComponent(user) }) };
    return await sinkAuthorization(home(), terms)(url);
  };
}
