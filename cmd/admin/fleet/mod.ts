/** `sbx-admin fleet`: records of many machines in one place (docs/guides/fleet.md). */
import type { CommandGroup } from "../../../lib/base/args/mod.ts";
import { fleetGrafana } from "./grafana.ts";
import { fleetHunt } from "./hunt.ts";
import { fleetImport } from "./import.ts";
import { fleetMachines } from "./machines.ts";
import { fleetSchema } from "./schema.ts";
import { fleetServe } from "./serve.ts";
import { fleetTables } from "./tables.ts";
import { fleetToken } from "./token.ts";
import { fleetVerify } from "./verify.ts";

export const FLEET: CommandGroup = {
  name: "fleet",
  summary: "receive and verify the records of many machines",
  subcommands: [
    fleetServe,
    fleetToken,
    fleetMachines,
    fleetVerify,
    fleetImport,
    fleetTables,
    fleetSchema,
    fleetGrafana,
    fleetHunt,
  ],
};
