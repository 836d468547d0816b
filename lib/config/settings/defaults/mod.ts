/**
 * Built-in settings (docs/design/contracts/03-settings.md §3), embedded so that the program never runs
 * without them.
 */
import { APP_DEFAULTS, HOST_DEFAULTS } from "./host.ts";
import { VM_DEFAULTS } from "./vm.ts";

/** Text of defaults.toml; `SBX_DEFAULTS_CONFIG` names a file that replaces it. */
export const DEFAULTS_TOML = APP_DEFAULTS + VM_DEFAULTS + HOST_DEFAULTS;
