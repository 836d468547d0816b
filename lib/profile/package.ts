/** Schema of `[packages]`. The names reach command lines of apt and npm, so none may look like an option. */
import { z } from "zod";

const apt = z.string().max(256).regex(
  /^[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$/,
  "not the name of a Debian package",
);
const npm = z.string().max(256).regex(
  /^(@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9][a-z0-9._~-]*(@[A-Za-z0-9.^~<>=*+-]+)?$/,
  "not the name of an npm package",
);

export const Packages = z.strictObject({ apt: z.array(apt).default([]), npm: z.array(npm).default([]) });
