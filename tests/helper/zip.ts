/** Zip archives for tests. */
import { Buffer } from "node:buffer";
import { crc32, deflateRawSync } from "node:zlib";

/** A file of an archive; `size` is the one in its list, where that is another than the content's. */
export interface ZipFile {
  name: string;
  content: string;
  stored?: boolean;
  size?: number;
}

export function zip(files: readonly ZipFile[]): Uint8Array<ArrayBuffer> {
  const locals: Buffer[] = [];
  const list: Buffer[] = [];
  let offset = 0;
  for (const { name, content, stored, size = Buffer.byteLength(content) } of files) {
    const packed = stored ? Buffer.from(content) : deflateRawSync(content);
    const bytes = Buffer.from(name);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(stored ? 0 : 8, 8);
    local.writeUInt32LE(crc32(content), 14);
    local.writeUInt32LE(packed.length, 18);
    local.writeUInt32LE(size, 22);
    local.writeUInt16LE(bytes.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(stored ? 0 : 8, 10);
    entry.writeUInt32LE(crc32(content), 16);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(size, 24);
    entry.writeUInt16LE(bytes.length, 28);
    entry.writeUInt32LE(offset, 42);
    locals.push(local, bytes, packed);
    list.push(entry, bytes);
    offset += local.length + bytes.length + packed.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(Buffer.concat(list).length, 12);
  end.writeUInt32LE(offset, 16);
  return new Uint8Array(Buffer.concat([...locals, ...list, end]));
}
