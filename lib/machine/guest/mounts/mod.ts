/** Mounts of a guest's process, as mountinfo(5) has them. Guest programs bundle this folder. */

export interface Mount {
  id: number;
  /** number of its file system */
  device: string;
  /** folder of the file system that is mounted, or file */
  root: string;
  /** where */
  point: string;
  type: string;
  /** of the file system, as the kernel writes them */
  options: string;
}

/** @param mountinfo text of the file of a process; a later mount at a point hides an earlier one */
export function mountsOf(mountinfo: string): Mount[] {
  return mountinfo.split("\n").filter(Boolean).map((line) => {
    const [id, , device, root, point, ...rest] = line.split(" ");
    const [type, , options = ""] = rest.slice(rest.indexOf("-") + 1);
    return { id: Number(id), device, root: unescape(root), point: unescape(point), type, options };
  });
}

function unescape(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits) => String.fromCharCode(parseInt(digits, 8)));
}
