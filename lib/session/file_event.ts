import { type FileActivity, fileNameOf, GUEST_WORKSPACE, type NamedPaths, pathClass } from "../event/mod.ts";
import { userName } from "../base/user/mod.ts";
import type { Draft } from "../policy/mod.ts";

/** An operation of the host on files of the workspace. */
export interface HostFile {
  operation: "import" | "export";
  /** in the guest */
  path: string;
  byte_count: number;
  labels: Record<string, string>;
}

/** The start of a VM to which a folder of the host is open. */
export function liveStart({ name, dir }: { name: string; dir: string }): HostFile {
  const path = `${GUEST_WORKSPACE}/${name}`;
  return { operation: "import", path, byte_count: 0, labels: { live: dir, user: userName() } };
}

/**
 * The draft of files that the host put into the workspace or took from it.
 *
 * @param named classes of the profile
 */
export function fileDraft({ operation, path, byte_count, labels }: HostFile, named: NamedPaths): Draft {
  const activity: FileActivity = {
    operation,
    path,
    path_class: pathClass(path, named),
    ...fileNameOf(path),
    byte_count,
  };
  return {
    common: { event_type: "file.activity", source_engine: "file", actor: "host", labels },
    file: { activity },
  };
}
