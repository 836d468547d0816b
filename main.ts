/** The one program of sbx: argv[0], or else the first argument, picks the role. */
import { basename } from "node:path";
import process from "node:process";

const ROLES: Record<string, () => Promise<{ main(args: string[]): Promise<number> | number }>> = {
  service: () => import("./cmd/service/main.ts"),
  process: () => import("./cmd/process/main.ts"),
  gateway: () => import("./cmd/gateway/main.ts"),
  admin: () => import("./cmd/admin/main.ts"),
};

const invoked = basename(process.argv0).match(/^sbx-(\w+)$/)?.[1];
const named = invoked ?? Deno.args[0]?.match(/^(service|process|gateway|admin)$/)?.[0];
const args = named && !invoked ? Deno.args.slice(1) : Deno.args;
const { main } = named && Object.hasOwn(ROLES, named)
  ? await ROLES[named]()
  : await import("./cmd/sbx/main.ts");
Deno.exit(await main(args));
