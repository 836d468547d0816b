/**
 * Imports every file that main.ts loads by a computed name, for `deno compile --include` and import checks.
 */
import "../lib/base/args/options/mod.ts";
import "./admin/all.ts";
import "./admin/main.ts";
import "./aggregator/main.ts";
import "./gateway/main.ts";
import "./live/main.ts";
import "./mcp/main.ts";
import "./process/main.ts";
import "./sbx/all.ts";
import "./sbx/main.ts";
import "./service/main.ts";
import "./tray/main.ts";
import "../lib/base/dbus/mod.ts";
