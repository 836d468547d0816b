/** Class of a guest path; the value of `path_class`. */
export type PathClass = "workspace" | "secret" | "home" | "temp" | "device" | "system" | "other";

/**
 * Classes that a profile can give to paths of a guest
 * (docs/design/contracts/04-profiles.md §4, "Classes of paths").
 */
export const NAMED_CLASSES = ["workspace", "secret", "system", "temp"] as const satisfies PathClass[];
/** Class of a file or folder, by its absolute path. */
export type NamedPaths = Readonly<Record<string, typeof NAMED_CLASSES[number]>>;

/** Mount point of the shared workspace in the guest. */
export const GUEST_WORKSPACE = "/workspace";

const SECRET =
  /(^|\/)(\.env(\.[^/]*)?|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)|[^/]*\.(pem|key|p12|pfx|keystore)|shadow|gshadow)$|(^|\/)(\.ssh|\.aws|\.gnupg|\.azure|\.kube|\.docker|\.config\/(gcloud|gh))(\/|$)/;
const PLACES: [RegExp, PathClass][] = [
  [/^\/(tmp|var\/tmp|run)(\/|$)/, "temp"],
  [/^\/(dev|proc|sys)(\/|$)/, "device"],
  [/^\/(root|home)(\/|$)/, "home"],
  [/^\/(etc|usr|bin|sbin|lib\w*|boot|opt|var)(\/|$)/, "system"],
];

/**
 * Classifies a guest path. Secret names come first, in any folder, so that a rule can protect a `.env` in the
 * workspace without listing folders, and no named path hides one. `.` and `..` are resolved before matching.
 *
 * @param named classes of a profile; the longest path that contains the file decides
 */
export function pathClass(path: string, named: NamedPaths = {}): PathClass {
  const clean = resolve(path);
  if (SECRET.test(clean)) return "secret";
  let longest = "";
  for (const place in named) {
    const contains = clean === place || clean.startsWith(`${place}/`);
    if (contains && place.length > longest.length) longest = place;
  }
  if (longest) return named[longest];
  if (clean === GUEST_WORKSPACE || clean.startsWith(GUEST_WORKSPACE + "/")) return "workspace";
  return PLACES.find(([pattern]) => pattern.test(clean))?.[1] ?? "other";
}

/**
 * Name and extension of the file at a path; an extension is lower case without the
 * dot, and hidden files have none.
 */
export function fileNameOf(path: string): { name: string; ext: string } {
  const name = resolve(path).split("/").at(-1)!;
  const dot = name.lastIndexOf(".");
  return { name, ext: dot > 0 ? name.slice(dot + 1).toLowerCase() : "" };
}

/** Class of a URL path; the value of `http.request.path_class`. */
export type HttpPathClass = "root" | "auth" | "api" | "static" | "other";

/** Classifies a URL path. */
export function httpPathClass(path: string): HttpPathClass {
  if (path === "" || path === "/") return "root";
  if (/\/(oauth2?|login|logout|signin|token|authorize|saml|sso)(\/|$)/i.test(path)) return "auth";
  if (/(^|\/)(api|graphql|rpc|v\d+)(\/|$)/i.test(path)) return "api";
  if (/\.(css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|woff2?|ttf|html?|txt)$/i.test(path)) return "static";
  return "other";
}

function resolve(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return (path.startsWith("/") ? "/" : "") + parts.join("/");
}
