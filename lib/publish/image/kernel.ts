import { SbxError } from "../../base/error/mod.ts";
import { run } from "./command.ts";
import { requireTools, UNPACKERS } from "./tool.ts";

/** Offsets in a bzImage (Linux, Documentation/x86/boot.rst). */
const SETUP_SECTORS = 0x1f1, SETUP_MAGIC = 0x202, PAYLOAD_OFFSET = 0x248, PAYLOAD_LENGTH = 0x24c;
const SECTOR = 512;

/**
 * Decompressors by magic bytes. `sizeAfter`: the kernel build appends the size, four bytes, to the stream
 * (gzip includes it). The kernel's lz4 is the legacy frame, which `lz4 -dc` reads.
 */
const FORMATS: { magic: number[]; command: string[]; sizeAfter: boolean }[] = [
  { magic: [0x02, 0x21, 0x4c, 0x18], command: ["lz4", "-dc"], sizeAfter: true },
  { magic: [0x28, 0xb5, 0x2f, 0xfd], command: ["zstd", "-dc"], sizeAfter: true },
  { magic: [0xfd, 0x37, 0x7a, 0x58, 0x5a], command: ["xz", "-dc"], sizeAfter: true },
  { magic: [0x1f, 0x8b], command: ["gzip", "-dc"], sizeAfter: false },
];

/**
 * Unpacks the kernel in Debian's `vmlinuz`: an ELF (x86_64) or an Image (arm64). QEMU boots both directly,
 * and decompressing once here saves half a second of every boot under emulation.
 *
 * @throws {SbxError} `image.kernel.invalid`: unknown compression, or no bootable kernel
 */
export async function unpackKernel(image: Uint8Array, signal?: AbortSignal): Promise<Uint8Array> {
  const payload = findPayload(image);
  const format = FORMATS.find(({ magic }) => magic.every((byte, at) => payload[at] === byte));
  if (!format) {
    if (isBootable(payload)) return payload;
    throw new SbxError(
      "image.kernel.invalid",
      "the guest's Debian kernel is packed in an unknown format",
    );
  }
  const { command, sizeAfter } = format;
  await requireTools({ [command[0]]: UNPACKERS[command[0]] });
  const input = sizeAfter && payload !== image ? payload.subarray(0, -4) : payload;
  const kernel = await run(command, { doing: "unpacking the kernel", input, signal });
  if (isBootable(kernel)) return kernel;
  throw new SbxError(
    "image.kernel.invalid",
    "the guest's Debian kernel does not unpack to a bootable kernel",
  );
}

/** Finds the compressed part of a bzImage or an EFI zboot image; any other file is its own payload. */
function findPayload(image: Uint8Array): Uint8Array {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  const text = (at: number, length: number) =>
    new TextDecoder("latin1").decode(image.subarray(at, at + length));
  if (text(SETUP_MAGIC, 4) === "HdrS") {
    const start = ((image[SETUP_SECTORS] || 4) + 1) * SECTOR + view.getUint32(PAYLOAD_OFFSET, true);
    return image.subarray(start, start + view.getUint32(PAYLOAD_LENGTH, true));
  }
  if (text(0, 2) === "MZ" && text(4, 4) === "zimg") {
    const start = view.getUint32(8, true);
    return image.subarray(start, start + view.getUint32(12, true));
  }
  return image;
}

/** Tests for an ELF or an arm64 Image. */
function isBootable(kernel: Uint8Array): boolean {
  const text = (at: number, length: number) =>
    new TextDecoder("latin1").decode(kernel.subarray(at, at + length));
  return text(0, 4) === "\x7fELF" || text(56, 4) === "ARM\x64";
}
