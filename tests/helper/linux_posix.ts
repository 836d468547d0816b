/** Linux as a platform of ffi/posix: the code that macOS runs is tested here with these values. */
import { Calls, type Platform, statOf } from "../../ffi/posix/mod.ts";

const isX86 = Deno.build.arch === "x86_64";

/** `struct stat` of glibc, which differs by architecture from the third field on. */
const AT = isX86
  ? { links: 16, mode: 24, uid: 28, gid: 32, size: 48, blocks: 64 }
  : { links: 20, mode: 16, uid: 24, gid: 28, size: 48, blocks: 64 };

const LINUX: Platform = {
  library: "libc.so.6",
  errno: "__errno_location",
  errors: { 2: "ENOENT", 6: "ENXIO", 17: "EEXIST", 18: "EXDEV", 20: "ENOTDIR", 39: "ENOTEMPTY", 40: "ELOOP" },
  open: {
    directory: isX86 ? 0o200000 : 0o40000,
    noFollow: isX86 ? 0o400000 : 0o100000,
    closeOnExec: 0o2000000,
    nonBlock: 0o4000,
    create: 0o100,
    exclusive: 0o200,
    hold: 0,
  },
  at: { cwd: -100, symlinkNoFollow: 0x100, removeDir: 0x200 },
  seek: { data: 3, hole: 4 },
  omitTime: (1n << 30n) - 2n,
  statBytes: 144,
  parseStat: (view) =>
    statOf(view, {
      device: Number(view.getBigUint64(0, true)),
      inode: view.getBigUint64(8, true),
      links: isX86 ? Number(view.getBigUint64(AT.links, true)) : view.getUint32(AT.links, true),
      mode: view.getUint32(AT.mode, true),
      uid: view.getUint32(AT.uid, true),
      gid: view.getUint32(AT.gid, true),
      size: view.getBigInt64(AT.size, true),
      blocks: view.getBigInt64(AT.blocks, true),
      modifiedAt: 88,
      changedAt: 104,
    }),
  nameAt: 19,
  variadicOnStack: false,
  pathOf: (fd) => `/proc/self/fd/${fd}`,
};

export const LINUX_CALLS = new Calls(LINUX);
