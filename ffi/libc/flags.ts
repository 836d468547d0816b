/**
 * Flags of open(2) whose values depend on the architecture: on arm64 some of them have changed places. Taken
 * from the wrong one, a link would be followed that must not be.
 */
const [directory, noFollow] = Deno.build.arch === "aarch64" ? [0o40000, 0o100000] : [0o200000, 0o400000];

export const O_DIRECTORY = directory;
export const O_NOFOLLOW = noFollow;

/** The same everywhere. */
export const O_CLOEXEC = 0o2000000;
export const O_PATH = 0o10000000;
