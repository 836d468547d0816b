/** Mounts of a process, as mountinfo(5) has them. */

export interface Mount {
  id: number;
  /** number of its file system */
  device: string;
  /** folder of the file system that is mounted, or file */
  root: string;
  /** where */
  point: string;
  type: string;
}

export function mountsOf(mountinfo: string): Mount[] {
  return mountinfo.split("\n").filter(Boolean).map((line) => {
    const [id, , device, root, point, ...rest] = line.split(" ");
    return {
      id: Number(id),
      device,
      root: unescape(root),
      point: unescape(point),
      type: rest[rest.indexOf("-") + 1],
    };
  });
}

/** The rest of a path below a folder, with its slash; empty for the folder; undefined for paths elsewhere. */
export function below(path: string, folder: string): string | undefined {
  if (folder === "/") return path === "/" ? "" : path;
  if (path === folder) return "";
  return path.startsWith(`${folder}/`) ? path.slice(folder.length) : undefined;
}

/** A path below a folder, the inverse of {@linkcode below}; `/` is the folder as well. */
export function joined(folder: string, rest: string): string {
  if (folder === "/") return rest || "/";
  return rest === "/" ? folder : folder + rest;
}

function unescape(path: string): string {
  return path.replace(/\\(\d{3})/g, (_, code) => String.fromCharCode(parseInt(code, 8)));
}
