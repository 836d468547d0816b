/** Imports every file that main.ts loads by a computed name, for `deno compile --include`. */
import "./image.ts";
import "./manifest.ts";
import "./profile.ts";
import "./policy.ts";
import "./detection.ts";
import "./release/mod.ts";
import "./package/mod.ts";
import "./fleet/mod.ts";
import "./ca.ts";
import "./users.ts";
