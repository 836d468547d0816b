/** Paths of the host in settings: one below the home or the repository has another place in the guest. */

/** The home of the guest's user, in which every agent has its files. */
export const GUEST_HOME = "/root";

/** A folder of the host, and its place in the guest. */
export interface MappedFolder {
  from: string;
  to: string;
}

/** A path in a setting. */
export interface HostPath {
  file: string;
  key: string;
  path: string;
  /** folder that contains it; elsewhere: the guest has nothing of it, and it stays as it is written */
  below: "home" | "repository" | "elsewhere";
}

/** Folders that every guest has of its own. */
const GUESTS_OWN = /^\/(?:bin|sbin|usr\/s?bin|usr\/local\/bin|tmp|dev|proc|root|workspace)(?:\/|$)/;

const ABSOLUTE = /(?<![\w.~:/*-])\/(?:[\w.@+-]+\/)*[\w.@+-]+/g;

/**
 * A folder wherever a path begins with it: alone, behind `=` or in quotes, not within a longer path or name.
 */
function patternOf(folder: string): RegExp {
  return new RegExp(`(?<![\\w.~-])${RegExp.escape(folder)}(?=$|[/\\s"'\`:;,)*\\]}])`, "g");
}

/** The text with the guest's paths. */
export function mapPaths(text: string, folders: readonly MappedFolder[]): string {
  // In two steps: a place in the guest may begin like a folder of the host.
  const longest = folders.toSorted((a, b) => b.from.length - a.from.length);
  const marked = longest.reduce(
    (text, { from }, at) => text.replaceAll(patternOf(from), `\0${at}\0`),
    text.replaceAll("\0", ""),
  );
  return marked.replaceAll(/\0(\d+)\0/g, (_, at) => longest[Number(at)].to);
}

/** The absolute paths in a text. */
export function pathsIn(
  text: string,
  { home, repository }: { home: string; repository: string },
): Pick<HostPath, "path" | "below">[] {
  const below = ([["repository", repository], ["home", home]] as const)
    .flatMap(([name, folder]) =>
      Array.from(text.matchAll(patternOf(folder)), ({ index }) => ({ name, index }))
    );
  const seen = new Set<string>();
  const starts = new Map(below.toReversed().map(({ name, index }) => [index, name]));
  return [...text.matchAll(ABSOLUTE)].flatMap(({ index, 0: path }) => {
    const name = starts.get(index) ?? "elsewhere";
    if (seen.has(path) || name === "elsewhere" && GUESTS_OWN.test(path)) return [];
    seen.add(path);
    return [{ path, below: name }];
  });
}
