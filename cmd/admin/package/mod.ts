/** `sbx-admin package`: Debian packages, and repositories of them. */
import type { CommandGroup } from "../../../lib/base/args/mod.ts";
import { packageCorp } from "./corp.ts";
import { packageRepository } from "./repository.ts";

export const group: CommandGroup = {
  name: "package",
  summary: "make a company's package, and apt repositories",
  subcommands: [packageCorp, packageRepository],
};
