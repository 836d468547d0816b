import { SbxError } from "../base/error/mod.ts";
import { checkUserNamespace } from "./user_namespace.ts";

/** Programs of the QEMU hypervisor on the host. */
export interface Tools {
  qemu: string;
  vsock: string;
  virtiofsd: string;
  /** virtiofsd is QEMU's own, with arguments like `-o source=`, not its Rust successor */
  virtiofsdIsLegacy: boolean;
}

const SEARCH = ["/usr/bin", "/usr/local/bin", "/usr/libexec", "/usr/lib/qemu", "/usr/sbin"];
const QEMU: Record<string, string> = { x86_64: "qemu-system-x86_64", aarch64: "qemu-system-aarch64" };

/**
 * Finds the host's programs, and checks that this user can run them.
 *
 * @throws {SbxError} `host.tools_missing`: names each missing one
 */
export function findTools(): Tools {
  const names = [QEMU[Deno.build.arch], "vhost-device-vsock", "virtiofsd"];
  const [qemu, vsock, virtiofsd] = names.map(find);
  const missing = names.filter((_, i) => ![qemu, vsock, virtiofsd][i]);
  if (missing.length > 0) {
    throw new SbxError("host.tools_missing", `this machine cannot run VMs: ${missing.join(", ")} not found`, {
      hint: "install what is missing: scripts/deps.sh, or make setup",
    });
  }
  checkUserNamespace({ uid: Deno.uid() ?? 0, find, read });
  return {
    qemu: qemu!,
    vsock: vsock!,
    virtiofsd: virtiofsd!,
    virtiofsdIsLegacy: virtiofsd!.startsWith("/usr/lib/qemu/"),
  };
}

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

function find(name: string): string | undefined {
  return SEARCH.map((folder) => `${folder}/${name}`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}
