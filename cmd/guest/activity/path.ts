/**
 * An absolute path from a folder, without `.`, `..` and empty parts, like `resolve` of `node:path`, which
 * takes a quarter of a second to load in an emulated guest.
 */
export function resolve(folder: string, path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${folder}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
