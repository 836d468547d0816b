/** `sbx-admin fleet`: records of many machines in one place (docs/guides/fleet.md). */
import type { CommandGroup } from "../../../lib/base/args/mod.ts";
import { fleetErase, fleetExport, fleetRetain } from "./life.ts";
import { fleetBind, fleetEnrol, fleetHomes } from "./enrol.ts";
import { fleetEngines } from "./engines.ts";
import { fleetHunt } from "./hunt.ts";
import { fleetImport } from "./import.ts";
import { fleetMachines, fleetRetire, fleetRevoke, fleetToken, fleetVerify } from "./machines.ts";
import { fleetAsked, fleetReader } from "./reader.ts";
import { fleetServe } from "./serve.ts";
import { fleetGrafana, fleetSchema, fleetTables } from "./tables.ts";

export const group: CommandGroup = {
  name: "fleet",
  summary: "receive and verify the records of many machines",
  subcommands: [
    fleetServe,
    fleetToken,
    fleetEnrol,
    fleetHomes,
    fleetBind,
    fleetMachines,
    fleetRetire,
    fleetRevoke,
    fleetVerify,
    fleetErase,
    fleetExport,
    fleetRetain,
    fleetImport,
    fleetEngines,
    fleetTables,
    fleetSchema,
    fleetGrafana,
    fleetHunt,
    fleetReader,
    fleetAsked,
  ],
};
