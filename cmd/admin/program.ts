/** Name of the program in help and errors, and shared options. */
import type { Option } from "../../lib/base/args/mod.ts";

/** Name of the program in help and errors. */
export const PROGRAM = "sbx-admin";

/** Option of commands that write a manifest. */
export const VERSION_OPTION: Option = {
  name: "version",
  value: "VERSION",
  about:
    "version of the assets, YYYY.MMDD.N; default the current one if the files are unchanged, else today's next",
};
